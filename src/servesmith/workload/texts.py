"""Requests made of words, each of exactly its planned length by the server's own count."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Workload
from servesmith.workload.base import Message, Tokenizer
from servesmith.workload.bodies import Content, assistant, user
from servesmith.workload.fit import Count, SumOfWords, fit, frame_of
from servesmith.workload.plan import Plan, prefixes_of
from servesmith.workload.words import WORDS

NONCE = 3
"""Words, or token ids, at the front that are unique to a prompt: enough for len(WORDS)**3 prompts."""

Parts = Sequence[str]
"""Question, answer, question ... of a talk, the last one a question."""


def nonce(symbols: Sequence[Any], index: int) -> list[Any]:
    """`index` as digits of base len(symbols), the fastest changing first: neighbours differ at once."""
    digits: list[Any] = []
    for _ in range(NONCE):
        index, digit = divmod(index, len(symbols))
        digits.append(symbols[digit])
    return digits


class Counter:
    """Counts talks of a workload's API. With `fast`, words are counted once and added up."""

    def __init__(self, workload: Workload, tokenizer: Tokenizer, *, fast: bool) -> None:
        self.fast = fast
        self._chat = workload.api == "chat"
        self._tokenizer = tokenizer
        self._words: SumOfWords | None = SumOfWords(self._one) if fast else None
        self._around: dict[int, int] = {}

    def exactly(self, parts: Parts) -> int:
        """By the server."""
        if len(parts) == 1 or not self._chat:
            return self._one(" ".join(parts))
        return self._tokenizer.count_messages(messages(parts))

    def __call__(self, parts: Parts) -> int:
        """By the sum of words if it is fast, else by the server."""
        if self._words is None:
            return self.exactly(parts)
        if len(parts) == 1 or not self._chat:
            return self._words(" ".join(parts))
        own = sum(map(self._words, parts))
        if len(parts) not in self._around:
            self._around[len(parts)] = self.exactly(parts) - own
        return own + self._around[len(parts)]

    def _one(self, text: str) -> int:
        return self._tokenizer.count_chat(text) if self._chat else self._tokenizer.count_text(text)


def messages(parts: Parts) -> list[Message]:
    """A talk as messages: the user begins, and the two take turns."""
    return [assistant(part) if place % 2 else user(part) for place, part in enumerate(parts)]


class Texts:
    """Makes the texts of plans, in their order."""

    def __init__(self, workload: Workload, count: Counter, seed: int) -> None:
        self._chat = workload.api == "chat"
        self._pool = prefixes_of(workload)
        self._by_name = workload.shared_prefix_tokens > 0
        self._count = count
        self._seed = seed
        self._symbols = list(WORDS)
        random.Random(f"{seed}/nonce").shuffle(self._symbols)
        self.frame = frame_of(lambda text: count((text,)), *self._symbols[:2])

    def of(self, plans: Sequence[Plan]) -> Iterator[tuple[Plan, Parts]]:
        """Each plan with its talk. Raises InputError if a length cannot be met."""
        prefixes = self._prefixes()
        parts: list[str] = []
        before: Plan | None = None
        for plan in plans:
            if plan.turn and before is not None:
                parts = [*parts, self._answer(before)]
                parts = [*parts, self._question(parts, plan)]
            else:
                head = [*(prefixes[plan.prefix] if plan.prefix >= 0 else ()), *nonce(self._symbols, plan.talk)]
                parts = [" ".join(self._fit(head, plan, self.frame, lambda text: self._count((text,))))]
            before = plan
            yield plan, parts

    def content(self, parts: Parts) -> Content:
        """The talk as a request carries it."""
        if not self._chat:
            return " ".join(parts)
        return parts[0] if len(parts) == 1 else messages(parts)

    def _prefixes(self) -> list[list[str]]:
        pool = self._pool
        if pool is None:
            return []
        names = [f"{self._seed}/shared"] if self._by_name else [f"{self._seed}/shared/{n}" for n in range(pool.count)]
        target = pool.tokens + self.frame
        return [fit([], target, self.frame, lambda text: self._count((text,)), random.Random(name)) for name in names]

    def _fit(self, head: Sequence[str], plan: Plan, frame: int, count: Count) -> list[str]:
        return fit(head, plan.prompt_tokens, frame, count, random.Random(f"{self._seed}/{plan.index}"))

    def _answer(self, before: Plan) -> str:
        """Canned: as many tokens as the turn before was asked to answer with."""
        rng = random.Random(f"{self._seed}/answer/{before.index}")
        target = before.output_tokens + self.frame
        return " ".join(fit([], target, self.frame, lambda text: self._count((text,)), rng))

    def _question(self, parts: Parts, plan: Plan) -> str:
        start = random.Random(f"{self._seed}/question/{plan.index}").choice(WORDS)
        frame = self._count((*parts, start)) - 1
        short = frame + 1 - plan.prompt_tokens
        if short > 0:
            raise InputError(
                Problem(
                    f"A question of so few tokens has no room: what stands around a turn takes {short} more.",
                    "Raise question_tokens by as much.",
                    field="workload.sessions.question_tokens",
                )
            )
        return " ".join(self._fit([start], plan, frame, lambda text: self._count((*parts, text))))


def check_lengths(workload: Workload, plans: Sequence[Plan], frame: int, *, replay: bool) -> None:
    """Raise InputError if a prompt is shorter than what must be in it, with the least that can be asked for."""
    pool = prefixes_of(workload)
    for plan in plans:
        shared = pool.tokens if pool and plan.prefix >= 0 else 0
        least = frame + shared + NONCE
        if plan.prompt_tokens < least and not plan.turn:
            raise InputError(_too_small(workload, plan, (frame, shared, least), replay=replay))


def _too_small(workload: Workload, plan: Plan, takes: tuple[int, int, int], *, replay: bool) -> Problem:
    frame, shared, least = takes
    message = (
        f"{plan.prompt_tokens} prompt tokens are too few: what the server puts around a prompt takes {frame}, "
        f"the shared prefix {shared}, the words that make a prompt unique {NONCE}."
    )
    if replay:
        remedy = "Use api: completions and text: ids, which can be as short as a trace asks for."
        return Problem(f"Row {plan.index + 1} of the trace: {message}", remedy, field="workload.text")
    if workload.inferencex:
        return Problem(message, f"Set input_tokens so that `ratio` times it is {least}.", field="workload.inferencex")
    if workload.prompt_lengths:
        lower = "tokens" if workload.prompt_lengths.kind == "fixed" else "low"
        remedy = f"Set {lower} to {least} or more."
        if workload.prompt_lengths.kind == "trace":
            remedy = "Use api: completions and text: ids, which can be shorter."
        return Problem(message, remedy, field="workload.prompt_lengths")
    return Problem(message, f"Set prompt_tokens to {least} or more.", field="workload.prompt_tokens")
