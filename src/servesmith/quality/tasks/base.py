"""What a task is, and the kind whose items are generated from a seed."""

import random
import string
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from servesmith.errors import InputError, Problem

_TRIES = 1000
"""Repeats in a row after which a generator is taken to have no further items."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its right answer."""

    prompt: str
    """The user's message."""
    expected: str
    max_tokens: int
    """Longest answer that is waited for; a longer one is cut and counted as truncated."""
    examples: tuple[tuple[str, str], ...] = ()
    """Earlier turns of the same conversation, (user, assistant), that show what is wanted."""


class Task(Protocol):
    """A set of items and a rule that says which answers are right."""

    @property
    def name(self) -> str:
        """Short name, also the name of its file."""
        ...

    @property
    def chance(self) -> float:
        """Accuracy of guessing by someone who knows what an answer looks like."""
        ...

    @property
    def licence(self) -> str:
        """SPDX identifier of the items' licence."""
        ...

    def items(self, seed: int, count: int) -> tuple[Item, ...]:
        """Distinct items, the same for the same seed; fewer of them are a prefix of more.

        Raises InputError if the task does not have so many.
        """
        ...

    def score(self, item: Item, answer: str) -> bool:
        """True if the answer is right."""
        ...


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose items are drawn from a seed, scored by exact match."""

    name: str
    chance: float
    draw: Callable[[random.Random], tuple[str, str]]
    """A random source to (prompt, expected)."""
    max_tokens: int
    examples: tuple[tuple[str, str], ...] = ()
    licence: str = "Apache-2.0"

    def items(self, seed: int, count: int) -> tuple[Item, ...]:
        """Distinct items, the same for the same seed. Raises InputError if the task does not have so many."""
        source = self._distinct(random.Random(f"{self.name}/{seed}"))
        found = tuple(item for item, _ in zip(source, range(count), strict=False))
        if len(found) < count:
            raise InputError(
                Problem(
                    f"Task {self.name} has fewer than {count} different items.",
                    "Ask for fewer items (quality.items), or name more tasks (quality.tasks).",
                )
            )
        return found

    def score(self, item: Item, answer: str) -> bool:
        """True if the answer is the expected one, but for case, spacing, and punctuation at its ends."""
        return normalise(answer) == normalise(item.expected)

    def _distinct(self, rng: random.Random) -> Iterator[Item]:
        seen = {prompt for prompt, _ in self.examples}
        repeats = 0
        while repeats < _TRIES:
            prompt, expected = self.draw(rng)
            if prompt in seen:
                repeats += 1
                continue
            repeats = 0
            seen.add(prompt)
            yield Item(prompt=prompt, expected=expected, max_tokens=self.max_tokens, examples=self.examples)


def normalise(answer: str) -> str:
    """Lower case, single spaces, no punctuation or space at the ends."""
    return " ".join(answer.split()).strip(string.punctuation + " ").lower()
