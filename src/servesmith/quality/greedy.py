"""Greedy agreement: the same prompts, one at a time, temperature 0; where does the text part?

One stream takes batching out, so on most engines A restarted answers word for word the same. What still differs
between A and B is then what the change did to the numbers. `floor` is what A against A restarted gave.
"""

import random
from collections.abc import Sequence

from servesmith.quality.gate import Ask, chat_body
from servesmith.store.events import GreedyAgreement

MAX_TOKENS = 48
_SUBJECTS = (
    *("the sea", "a small village", "bread", "the moon", "an old clock", "rain", "a long journey", "music"),
    *("a lighthouse", "winter", "a library", "the desert", "a market", "horses", "a bridge", "tea"),
    *("a storm", "the forest", "a painter", "trains", "a garden", "mountains", "a letter", "fire"),
)
_ASKS = (
    "Write two sentences about {}.",
    "Tell a short story about {}.",
    "Explain to a child what is special about {}.",
)


def greedy_prompts(seed: int, count: int) -> tuple[str, ...]:
    """Different open questions that call for free text, the same for the same seed. At most 72."""
    every = [ask.format(subject) for ask in _ASKS for subject in _SUBJECTS]
    return tuple(random.Random(f"greedy/{seed}").sample(every, count))


def greedy_answers(prompts: Sequence[str], model: str, ask: Ask) -> tuple[str | None, ...]:
    """Every prompt's answer, asked one at a time; None where the request failed."""
    bodies = [chat_body([{"role": "user", "content": prompt}], model, MAX_TOKENS) for prompt in prompts]
    return tuple(record.text if record.ok else None for record in ask(bodies, 1))


def agreement(a: Sequence[str | None], b: Sequence[str | None], again: Sequence[str | None]) -> GreedyAgreement:
    """Count the answers of B, and of A restarted (`again`), that are A's to the letter.

    A failed request agrees with nothing. Raises ValueError if the three are not of the same length.
    """
    return GreedyAgreement(prompts=len(a), identical=_identical(a, b), floor=_identical(a, again))


def parts_at(a: str, b: str) -> int | None:
    """Index of the first word (split at spaces) at which two answers differ; None if they are the same text."""
    if a == b:
        return None
    words_a, words_b = a.split(" "), b.split(" ")
    same = [x == y for x, y in zip(words_a, words_b, strict=False)]
    return same.index(False) if False in same else len(same)


def _identical(a: Sequence[str | None], b: Sequence[str | None]) -> int:
    return sum(x is not None and x == y for x, y in zip(a, b, strict=True))
