"""What makes a number doubtful, as sentences that say what would remove the doubt. Pure."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from servesmith.measure.counters import Snapshot, difference
from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.select import ended_well, gaps, tokens_between
from servesmith.units import Nanos

DISAGREEMENT = 0.02
"""Relative difference between two ways to the same throughput from which on both are doubtful."""
UNSTEADY = 0.05
"""Relative difference between the halves of the window from which on the load counts as not steady."""
BEYOND = 5
"""Samples that must lie beyond a percentile (on its rarer side) before it is believed."""
FEWEST_ENDED = 2
"""Requests that must have ended well inside the window before its numbers are believed."""
CYCLES = 2.0
"""Request durations that a window must hold, or waves of requests pass for throughput."""
CENSORED = 0.05
"""Share of chunk gaps of zero from which on percentiles of the gaps mean little."""

_TIMELESS = ("error_rate", "prompt_token_error", "cached_prompt_fraction", "draft_acceptance")
_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass
class Found:
    """Doubts by what they concern: the whole load, or a group of metrics by prefix of their key."""

    load: list[str] = field(default_factory=list[str])
    groups: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, prefixes: Sequence[str], doubt: str) -> None:
        """Note a doubt that concerns every metric whose key starts with one of `prefixes`."""
        for prefix in prefixes:
            self.groups.setdefault(prefix, []).append(doubt)

    def of(self, key: str) -> tuple[str, ...]:
        """Doubts of one metric, each once."""
        mine = [doubt for prefix, doubts in self.groups.items() if key.startswith(prefix) for doubt in doubts]
        return tuple(dict.fromkeys(mine if key in _TIMELESS else [*mine, *self.load]))


def too_few(count: int, statistic: str) -> tuple[str, ...]:
    """A doubt if `count` samples do not carry it: at least 5 must lie beyond a percentile, 10 make a mean."""
    need = math.ceil(BEYOND / (1 - _QUANTILES.get(statistic, 0.5)) - 1e-9)
    if count >= need:
        return ()
    return (f"{statistic} of only {count} samples; {need} or more would carry it: lengthen the window",)


def find(
    records: Sequence[RequestRecord],
    window: Window,
    values: Mapping[str, float],
    counters: tuple[Snapshot, Snapshot] | None,
) -> Found:
    """All doubts that records, window and counters give rise to."""
    found = Found()
    _ended(found, records, window)
    _waves(found, window, values)
    _failures(found, records, window)
    _counting(found, records, window)
    _prompts(found, records)
    _censoring(found, records, window)
    if not _unsteady(found, values):
        _little(found, records, window, values)
    if counters:
        _server_count(found, records, *counters)
    return found


def _ended(found: Found, records: Sequence[RequestRecord], window: Window) -> None:
    """Parts of requests are no evidence of a load: it takes at least two that were seen whole."""
    well = len(ended_well(records, window))
    if well < FEWEST_ENDED:
        seen = "only one request" if well else "not one request"
        found.load.append(f"{seen} ended inside the window: lengthen it until it holds many requests of each stream")


def _waves(found: Found, window: Window, values: Mapping[str, float]) -> None:
    """In a window of about one request's length it matters where in the window the prefills fell."""
    duration = values.get("e2e_p50_s", 0.0)
    if duration * CYCLES > window.seconds:
        found.add(
            ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s"),
            f"a request takes {duration:.1f} s and the window {window.seconds:.0f} s, so waves of requests may "
            f"pass for throughput: take a window of {2 * CYCLES * duration:.0f} s and as long a warm-up as a request",
        )


def _failures(found: Found, records: Sequence[RequestRecord], window: Window) -> None:
    failed = [r for r in records if r.error not in ("", "cancelled") and r.end_ns >= window.start_ns]
    if failed:
        classes = ", ".join(f"{n} {name}" for name, n in sorted(Counter(r.error for r in failed).items()))
        found.load.append(f"{len(failed)} of {len(records)} requests failed ({classes}): remove their cause")


def _counting(found: Found, records: Sequence[RequestRecord], window: Window) -> None:
    with_tokens = [r for r in records if r.first_token_ns is not None and r.end_ns >= window.start_ns]
    sources = Counter(r.token_source for r in with_tokens)
    throughput = ("output_tokens_per_s", "total_tokens_per_s", "tokens_per_chunk", "little", "tpot")
    if sources["none"]:
        found.add(
            throughput,
            f"the tokens of {sources['none']} requests could not be counted and are missing: "
            "let the server report usage, or give a tokenizer",
        )
    elif len(sources) > 1:
        how = ", ".join(f"{name} {n}" for name, n in sorted(sources.items()))
        found.add(throughput, f"tokens were counted in different ways ({how}): let the server report usage per chunk")


def _prompts(found: Found, records: Sequence[RequestRecord]) -> None:
    off = [r for r in records if r.prompt_tokens >= 0 and 0 < r.prompt_tokens_meant != r.prompt_tokens]
    if off:
        counts = [r.prompt_tokens - r.prompt_tokens_meant for r in off]
        found.add(
            ("prompt_token_error", "total_tokens_per_s", "ttft"),
            f"{len(off)} prompts differ from their meant length by {min(counts):+d} to {max(counts):+d} tokens: "
            "count with the server's own tokenizer",
        )


def _censoring(found: Found, records: Sequence[RequestRecord], window: Window) -> None:
    all_gaps = [gap for record in records for gap in gaps(record, window)]
    share = sum(gap == 0 for gap in all_gaps) / len(all_gaps) if all_gaps else 0.0
    if share > CENSORED:
        found.add(
            ("itl",),
            f"{share:.0%} of chunks came in the same read as the one before (speculation, or a client that is late): "
            "use tpot",
        )


def _unsteady(found: Found, values: Mapping[str, float]) -> bool:
    first, second = values["output_tokens_per_s_first_half"], values["output_tokens_per_s_second_half"]
    larger = max(first, second)
    change = abs(first - second) / larger if larger else 0.0
    if change <= UNSTEADY:
        return False
    found.load.append(
        f"not steady: {first:.4g} tokens/s in the first half of the window, {second:.4g} in the second: "
        "lengthen warm-up and window"
    )
    return True


def _little(found: Found, records: Sequence[RequestRecord], window: Window, values: Mapping[str, float]) -> None:
    """Little's law against the throughput; its own sampling error (two standard errors) is allowed for."""
    little, seen = values.get("little_output_tokens_per_s"), values["output_tokens_per_s"]
    times = [r.end_ns - r.sent_ns for r in ended_well(records, window)]
    if little is None or len(times) < 2 or not seen:
        return
    error = 2 * statistics.stdev(times) / statistics.mean(times) / math.sqrt(len(times))
    if abs(little / seen - 1) > DISAGREEMENT + error:
        found.add(
            ("output_tokens_per_s", "little"),
            f"Little's law gives {little:.4g} tokens/s, the chunks {seen:.4g}: "
            "lengthen warm-up and window until they agree",
        )


def _server_count(found: Found, records: Sequence[RequestRecord], before: Snapshot, after: Snapshot) -> None:
    """The server's counter against ours.

    Some servers count a token when it is made, others all tokens of a request when it ends, and each
    reading lies somewhere between its asking and its answer; only outside all of that is a doubt.
    """
    server = difference(before, after).get("output_tokens")
    if server is None:
        return
    widest, narrowest = (before.asked_ns, after.at_ns), (before.at_ns, after.asked_ns)
    as_made = [tokens_between(records, *span) for span in (narrowest, widest)]
    at_end = [_tokens_by_end(records, *span) for span in (narrowest, widest)]
    if _within(server, as_made) or _within(server, at_end):
        return
    found.add(
        ("output_tokens_per_s", "counter"),
        f"the server counted {server:.0f} output tokens where {as_made[1]:.0f} arrived here: "
        "make sure that nobody else uses it, and lengthen the window",
    )


def _within(value: float, bounds: Sequence[float]) -> bool:
    return bounds[0] * (1 - DISAGREEMENT) <= value <= bounds[1] * (1 + DISAGREEMENT)


def _tokens_by_end(records: Sequence[RequestRecord], start: Nanos, end: Nanos) -> float:
    return sum(max(record.output_tokens, 0) for record in records if start <= record.end_ns < end)
