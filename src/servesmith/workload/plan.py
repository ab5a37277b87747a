"""What each request will be, before any text is made: lengths, prefix, session. Pure.

Request number i follows from the seed and i alone, so that a longer set begins with the shorter one.
"""

import math
import random
from collections.abc import Sequence

import msgspec

from servesmith.recipe.model import Prefixes, Sessions, Workload
from servesmith.workload import inferencex
from servesmith.workload.lengths import draw
from servesmith.workload.traces import Trace


class Plan(msgspec.Struct, frozen=True):
    """One request to be made."""

    index: int
    prompt_tokens: int
    output_tokens: int
    prefix: int = -1
    """Which prefix of the pool it begins with; -1: none."""
    session: int = -1
    turn: int = 0
    think_s: float = 0.0
    hash_ids: tuple[int, ...] = ()
    """Blocks of a trace that its prompt consists of."""

    @property
    def talk(self) -> int:
        """The session, or where there are none the request itself: what a unique beginning is numbered by."""
        return self.session if self.session >= 0 else self.index


def planned(workload: Workload, seed: int, count: int) -> list[Plan]:
    """`count` requests of a workload that is made up. Raises InputError if a trace that it draws from is unreadable."""
    turns = workload.sessions.turns if workload.sessions else 1
    sessions = -(-count // turns)
    prompts, outputs = _lengths(workload, seed, sessions * turns)
    pool = prefixes_of(workload)
    choices = [_prefix(pool, seed, talk) for talk in range(sessions)]
    plans: list[Plan] = []
    for index in range(count):
        talk, turn = divmod(index, turns)
        if turn and workload.sessions:
            before = plans[-1]
            tokens = before.prompt_tokens + before.output_tokens + workload.sessions.question_tokens
            think = _think(workload.sessions, seed, index)
            plans.append(Plan(index, tokens, outputs[index], choices[talk], talk, turn, think))
        else:
            session = talk if workload.sessions else -1
            plans.append(Plan(index, prompts[talk], outputs[index], choices[talk], session))
    return plans


def replayed(trace: Trace) -> list[Plan]:
    """The requests of a trace, row by row."""
    return [
        Plan(index, row.prompt_tokens, row.output_tokens, hash_ids=row.hash_ids) for index, row in enumerate(trace.rows)
    ]


def prefixes_of(workload: Workload) -> Prefixes | None:
    """The pool of prefixes; `shared_prefix_tokens` is a pool of one that every request begins with."""
    if workload.shared_prefix_tokens:
        return Prefixes(tokens=workload.shared_prefix_tokens)
    return workload.prefixes


def _lengths(workload: Workload, seed: int, count: int) -> tuple[Sequence[int], Sequence[int]]:
    if workload.inferencex:
        inputs, outputs = inferencex.lengths(workload.inferencex)
        again = -(-count // len(inputs))
        return inputs * again, outputs * again
    prompt, output = workload.prompt_lengths, workload.output_lengths
    return (
        draw(prompt, "prompt", seed, count) if prompt else [workload.prompt_tokens] * count,
        draw(output, "output", seed, count) if output else [workload.output_tokens] * count,
    )


def _prefix(pool: Prefixes | None, seed: int, talk: int) -> int:
    """Every stretch of talks has its share of prefixes, to within one; which of them is drawn."""
    if pool is None or math.floor((talk + 1) * pool.share) == math.floor(talk * pool.share):
        return -1
    return int(random.Random(f"{seed}/prefix/{talk}").random() * pool.count)


def _think(sessions: Sessions, seed: int, index: int) -> float:
    if sessions.think == "fixed" or not sessions.think_s:
        return sessions.think_s
    return -sessions.think_s * math.log1p(-random.Random(f"{seed}/think/{index}").random())


def cached_share(plans: Sequence[Plan], prefix_tokens: int, trace_block: int = 0, cache_block: int = 1) -> float:
    """Prompt tokens that were sent before at the beginning of another prompt, of all prompt tokens.

    What a cache that forgets nothing and keeps blocks of `cache_block` tokens would have, if requests were answered one
    after the other. A prefix counts from its second use on, a turn of a session for the prompt of the turn before (its
    canned answer was never generated), a row of a trace for its leading blocks (`trace_block` tokens each) that an
    earlier row had.
    """
    used: set[int] = set()
    blocks = _Beginnings()
    cached = 0
    for place, plan in enumerate(plans):
        known = prefix_tokens if plan.prefix in used else 0
        if plan.turn:
            known = plans[place - 1].prompt_tokens
        if plan.hash_ids:
            known = min(blocks.add(plan.hash_ids) * trace_block, plan.prompt_tokens)
        cached += known // cache_block * cache_block
        used.add(plan.prefix)
        used.discard(-1)
    return cached / max(1, sum(plan.prompt_tokens for plan in plans))


class _Beginnings:
    """Sequences of blocks by their beginnings: a block is known only behind the blocks that it stood behind."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], int] = {}

    def add(self, blocks: Sequence[int]) -> int:
        """How many of the leading blocks some earlier sequence had."""
        node = known = 0
        for block in blocks:
            size = len(self._nodes)
            node = self._nodes.setdefault((node, block), size + 1)
            known += node <= size
        return known
