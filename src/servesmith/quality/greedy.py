"""Greedy agreement: the same prompts, one at a time, temperature 0; where does the text part?

One stream takes batching out, so on most engines A restarted answers word for word the same. What still differs
between A and B is then what the change did to the numbers. `floor` is what A against A restarted gave.
"""

import random
from collections.abc import Sequence

from servesmith.quality.gate import Ask, chat_body
from servesmith.store.gates import agreement as agreement

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
