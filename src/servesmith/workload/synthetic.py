"""Prompts of exact length out of seeded words or token ids, and every other kind of workload: the door to this room.

Each prompt begins with words that no other prompt of the set begins with, so that a server's prefix cache
cannot serve it. Two things before them are shared all the same: what the chat template puts first (a system
prompt, a few tens of tokens, unavoidable) and a shared prefix where the workload asks for one.

Sessions are built before the clock starts, as everything is, so the answers that later turns repeat are canned words of
the length that was asked for, not what the server will have answered. What it computed for its own answer cannot serve
the next turn from its prefix cache; the prompt of the turn before can.
"""

from collections.abc import Sequence

from servesmith.errors import InputError
from servesmith.recipe.model import Workload
from servesmith.workload.base import Prompt, PromptSet, ServerKind, Tokenizer
from servesmith.workload.bodies import Bodies
from servesmith.workload.dataset import from_file
from servesmith.workload.ids import Ids, check_ids
from servesmith.workload.plan import Plan, cached_share, planned, prefixes_of, replayed
from servesmith.workload.texts import NONCE, Counter, Texts, check_lengths
from servesmith.workload.traces import Trace

__all__ = ["NONCE", "build", "build_rows", "build_set"]

CALIBRATE_FROM = 1_000
"""Prompts from which on it takes fewer calls to count each word than each prompt."""
_SAMPLE = 200


def build(
    workload: Workload,
    tokenizer: Tokenizer,
    seed: int,
    count: int,
    *,
    model: str = "",
    server: ServerKind = "openai",
) -> tuple[Prompt, ...]:
    """`count` prompts, each of exactly its length by `tokenizer`; equal seeds give equal prompts.

    Raises InputError if the lengths cannot be met (it names the shortest that can) or a file cannot be read,
    MachineError if the server does not count.
    """
    return build_set(workload, tokenizer, seed, count, model=model, server=server).prompts


def build_set(
    workload: Workload,
    tokenizer: Tokenizer,
    seed: int,
    count: int,
    *,
    model: str = "",
    server: ServerKind = "openai",
) -> PromptSet:
    """As `build`, with what is known of the prompts as a whole."""
    bodies = Bodies(workload, model, server)
    if workload.dataset:
        return from_file(bodies, tokenizer, seed, count)
    plans = planned(workload, seed, count)
    notes: tuple[str, ...] = ()
    if workload.inferencex and count > workload.inferencex.prompts:
        notes = (f"InferenceX sends {workload.inferencex.prompts} requests; their lengths were repeated for {count}",)
    if workload.text == "ids":
        made = Ids(workload, tokenizer, seed)
        check_ids(workload, plans)
        prompts = tuple(bodies.prompt(plan, ids) for plan, ids in made.of(plans))
        return PromptSet(prompts, 0, _cached(workload, plans), notes)
    prompts, counted = _worded(bodies, tokenizer, seed, plans)
    return PromptSet(prompts, counted, _cached(workload, plans), notes)


def build_rows(
    workload: Workload,
    tokenizer: Tokenizer,
    seed: int,
    trace: Trace,
    *,
    model: str = "",
    server: ServerKind = "openai",
) -> PromptSet:
    """One prompt for each row of a trace, with the row's lengths; the workload's own lengths do not count.

    With text: ids, blocks that rows have in common become equal ids, so that prefixes are shared as they were when the
    trace was recorded; with words every prompt is unique. Raises as `build` does.
    """
    bodies, plans = Bodies(workload, model, server), replayed(trace)
    if workload.text == "ids":
        made = Ids(workload, tokenizer, seed, trace.block_tokens)
        prompts = tuple(bodies.prompt(plan, ids) for plan, ids in made.of(plans))
        return PromptSet(prompts, 0, cached_share(plans, 0, trace.block_tokens))
    prompts, counted = _worded(bodies, tokenizer, seed, plans, replay=True)
    notes = ("the trace's shared prefixes were not rebuilt: that takes text: ids",) if trace.block_tokens else ()
    return PromptSet(prompts, counted, 0.0, notes)


def _cached(workload: Workload, plans: Sequence[Plan]) -> float:
    pool = prefixes_of(workload)
    return cached_share(plans, pool.tokens if pool else 0)


def _worded(
    bodies: Bodies, tokenizer: Tokenizer, seed: int, plans: Sequence[Plan], *, replay: bool = False
) -> tuple[tuple[Prompt, ...], int]:
    """Prompts out of words, and how many of them the server counted whole.

    A large set is counted by its words. The same search with either way of counting finds the same texts, so the
    set does not hang on its size; where the sample shows that words do not add up, every prompt is counted.
    """
    if len(plans) >= CALIBRATE_FROM:
        try:
            quick = _built(bodies, Counter(bodies.workload, tokenizer, fast=True), seed, plans, replay=replay)
        except InputError:  # say what is wrong by the server's own count
            quick = None
        if quick is not None:
            return quick
    slow = _built(bodies, Counter(bodies.workload, tokenizer, fast=False), seed, plans, replay=replay)
    assert slow is not None  # what the server counted needs no check
    return slow


def _built(
    bodies: Bodies, counter: Counter, seed: int, plans: Sequence[Plan], *, replay: bool
) -> tuple[tuple[Prompt, ...], int] | None:
    """None if a prompt of the sample is not as long as the sum of its words says."""
    texts = Texts(bodies.workload, counter, seed)
    check_lengths(bodies.workload, plans, texts.frame, replay=replay)
    every = max(1, len(plans) // _SAMPLE) if counter.fast else 0
    prompts: list[Prompt] = []
    counted = 0
    for plan, parts in texts.of(plans):
        if every and plan.index % every == 0:
            counted += 1
            if counter.exactly(parts) != plan.prompt_tokens:
                return None
        prompts.append(bodies.prompt(plan, texts.content(parts)))
    return tuple(prompts), counted if every else len(prompts)
