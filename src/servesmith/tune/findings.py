"""What the baseline's own facts and numbers say, and which flags that points to."""

from collections.abc import Callable, Mapping

import msgspec

from servesmith.engine.base import Facts
from servesmith.measure.records import Metric
from servesmith.recipe.model import Case


class Finding(msgspec.Struct, frozen=True):
    """One sentence, and the flags whose levers it speaks for."""

    text: str
    flags: tuple[str, ...]


Rule = Callable[[Case, Facts, Mapping[str, Metric]], Finding | None]


def findings(case: Case, facts: Facts, metrics: Mapping[str, Metric]) -> tuple[Finding, ...]:
    """All that the rules below see in a baseline trial."""
    rules: tuple[Rule, ...] = (_streams_wait_for_slots, _one_thread_idle, _warnings)
    return tuple(found for rule in rules if (found := rule(case, facts, metrics)) is not None)


def _streams_wait_for_slots(case: Case, facts: Facts, metrics: Mapping[str, Metric]) -> Finding | None:
    slots = facts.values.get("slots", "")
    if not slots.isdigit() or int(slots) >= case.load.streams:
        return None
    waiting = case.load.streams - int(slots)
    ttft = metrics.get("ttft_p50_ms")
    seen = f"; TTFT p50 is {ttft.value:,.0f} ms" if ttft else ""
    return Finding(
        f"{case.load.streams} streams share {slots} slots, so {waiting} requests wait at any time{seen}.",
        ("parallel",),
    )


def _one_thread_idle(case: Case, facts: Facts, metrics: Mapping[str, Metric]) -> Finding | None:
    del case, metrics
    threads, cores = facts.values.get("threads", ""), facts.values.get("cores", "")
    if threads.isdigit() and cores.isdigit() and 0 < int(threads) < int(cores):
        return Finding(f"{threads} threads on {cores} cores.", ("threads",))
    return None


def _warnings(case: Case, facts: Facts, metrics: Mapping[str, Metric]) -> Finding | None:
    del case, metrics
    return Finding(f"The engine warns: {facts.warnings[0]}", ()) if facts.warnings else None
