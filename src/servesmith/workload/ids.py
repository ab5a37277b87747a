"""Requests made of token ids: exact lengths without a count, since nothing stands around ids."""

import random
from collections.abc import Iterator, Sequence

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Workload
from servesmith.workload.base import Tokenizer
from servesmith.workload.plan import Plan, prefixes_of
from servesmith.workload.texts import NONCE, nonce
from servesmith.workload.words import WORDS

_POOL_WORDS = 600


def pool_of(tokenizer: Tokenizer, rng: random.Random) -> list[int]:
    """Ids out of those that ordinary and made-up words have: never a special token, always in the vocabulary."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
    made_up = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(_POOL_WORDS)]
    pool = sorted(set(tokenizer.tokenize(" ".join([*WORDS, *made_up]))))
    rng.shuffle(pool)
    return pool


class Ids:
    """Makes the ids of plans, in their order."""

    def __init__(self, workload: Workload, tokenizer: Tokenizer, seed: int, block_tokens: int = 0) -> None:
        """Raises InputError if the workload's API takes no ids."""
        if workload.api != "completions":
            message = "Token ids can only be sent to the completions API."
            raise InputError(Problem(message, "Set api: completions.", field="workload.text"))
        self._seed = seed
        self._rng = random.Random(f"{seed}/ids")
        self._ids = pool_of(tokenizer, self._rng)
        pool = prefixes_of(workload)
        self._prefixes = [self._rng.choices(self._ids, k=pool.tokens) for _ in range(pool.count)] if pool else []
        self._block_tokens = block_tokens

    def of(self, plans: Sequence[Plan]) -> Iterator[tuple[Plan, list[int]]]:
        """Each plan with exactly its prompt's ids."""
        ids: list[int] = []
        before: Plan | None = None
        for plan in plans:
            if plan.turn and before is not None:  # the prompt before, a canned answer, a question
                head = ids
            elif plan.hash_ids:
                head = self._blocks(plan)
            else:
                head = [*(self._prefixes[plan.prefix] if plan.prefix >= 0 else ()), *nonce(self._ids, plan.talk)]
            head = head[: plan.prompt_tokens]  # the row of a trace may be shorter than a nonce
            ids = [*head, *self._rng.choices(self._ids, k=plan.prompt_tokens - len(head))]
            before = plan
            yield plan, ids

    def _blocks(self, plan: Plan) -> list[int]:
        """Equal block, equal ids. Nothing is kept: a trace can have more blocks than memory."""
        ids: list[int] = []
        for block in plan.hash_ids:
            ids += random.Random(f"{self._seed}/block/{block}").choices(self._ids, k=self._block_tokens)
        return ids


def check_ids(workload: Workload, plans: Sequence[Plan]) -> None:
    """Raise InputError if a prompt has no room for its prefix and what makes it unique."""
    pool = prefixes_of(workload)
    for plan in plans:
        least = (pool.tokens if pool and plan.prefix >= 0 else 0) + NONCE
        if plan.prompt_tokens < least and not plan.turn:
            message = f"{plan.prompt_tokens} prompt tokens are too few for a prefix and {NONCE} unique ids."
            field = "workload.prompt_lengths.low" if workload.prompt_lengths else "workload.prompt_tokens"
            raise InputError(Problem(message, f"Set {field.rpartition('.')[2]} to {least} or more.", field=field))
