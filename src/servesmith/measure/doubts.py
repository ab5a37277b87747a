"""What makes a number doubtful, as sentences that say what would remove the doubt. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from servesmith.measure.counters import Snapshot, difference
from servesmith.measure.frame import Frame, inside
from servesmith.measure.records import Window
from servesmith.measure.samples import ended_well
from servesmith.measure.steady import lock_step, steady_state
from servesmith.measure.table import QUANTILES
from servesmith.units import NANOS_PER_SECOND, Nanos

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
"""Share of chunks without an arrival of their own from which on percentiles of the gaps mean little."""
IN_STEP = 0.5
"""Resultant length of the starts from which on a load is in lock-step, if chance makes it with less than 1 %."""
BY_CHANCE = 0.01

THROUGHPUT = ("output_tokens_per", "total_tokens_per", "cost_per")
_LATENCIES = ("ttft", "first_event", "tpot", "interactivity", "itl", "e2e", "normalised", "phase", "goodput")
_TIMELESS = ("error_rate", "prompt_token_error", "cached_prompt_fraction", "draft_acceptance", "first_token_",
             "tokens_from_", "merged_", "late_", "send_late", "dropped_", "client_lag", "kernel_stamped", "steady_from",
             "lock_step")  # fmt: skip
"""Numbers that do not hang on time, or that say themselves how the load went: no doubt of the load concerns them."""


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
        return tuple(dict.fromkeys(mine if key.startswith(_TIMELESS) else [*mine, *self.load]))


def too_few(count: int, statistic: str) -> tuple[str, ...]:
    """A doubt if `count` samples do not carry it: at least 5 must lie beyond a percentile, 10 make a mean."""
    share = QUANTILES.get(statistic, 0.5)
    if share == 1:
        return ()
    need = math.ceil(BEYOND / (1 - share) - 1e-9)
    if count >= need:
        return ()
    return (f"{statistic} of only {count} samples; {need} or more would carry it: lengthen the window",)


def find(
    frame: Frame, window: Window, values: Mapping[str, float], counters: tuple[Snapshot, Snapshot] | None
) -> Found:
    """All doubts that records, window and counters give rise to."""
    found = Found()
    _ended(found, frame, window)
    _waves(found, window, values)
    _failures(found, frame, window)
    _counting(found, frame, window)
    _prompts(found, frame)
    _censoring(found, values)
    _in_step(found, frame, window)
    if not _unsteady(found, frame, window, values):
        _little(found, frame, window, values)
    if counters:
        _server_count(found, frame, *counters)
    return found


def _ended(found: Found, frame: Frame, window: Window) -> None:
    """Parts of requests are no evidence of a load: it takes at least two that were seen whole."""
    well = int(ended_well(frame, window).sum())
    if well < FEWEST_ENDED:
        seen = "only one request" if well else "not one request"
        found.load.append(f"{seen} ended inside the window: lengthen it until it holds many requests of each stream")


def _waves(found: Found, window: Window, values: Mapping[str, float]) -> None:
    """In a window of about one request's length it matters where in the window the prefills fell."""
    duration = values.get("e2e_p50_s", 0.0)
    if duration * CYCLES > window.seconds:
        found.add(
            (*THROUGHPUT, "requests_per_s"),
            f"a request takes {duration:.1f} s and the window {window.seconds:.0f} s, so waves of requests may "
            f"pass for throughput: take a window of {2 * CYCLES * duration:.0f} s and as long a warm-up as a request",
        )


def _failures(found: Found, frame: Frame, window: Window) -> None:
    """Of what was sent; that something was dropped is a doubt of the load itself."""
    failed = ~frame.ok & ~frame.cancelled & ~frame.dropped & (frame.end_ns >= window.start_ns)
    if failed.any():
        counted = frame.counted("error", failed)
        classes = ", ".join(f"{n} {name}" for name, n in sorted(counted.items()))
        found.load.append(f"{failed.sum()} of {len(frame)} requests failed ({classes}): remove their cause")


def _counting(found: Found, frame: Frame, window: Window) -> None:
    with_tokens = frame.first_token.there & (frame.end_ns >= window.start_ns)
    sources = frame.counted("token_source", with_tokens)
    counted = (*THROUGHPUT, "tokens_per_chunk", "little", "tpot", "interactivity", "normalised", "goodput")
    if sources["none"]:
        found.add(
            counted,
            f"the tokens of {sources['none']} requests could not be counted and are missing: "
            "let the server report usage, or give a tokenizer",
        )
    elif len(sources) > 1:
        how = ", ".join(f"{name} {n}" for name, n in sorted(sources.items()))
        found.add(counted, f"tokens were counted in different ways ({how}): let the server report usage per chunk")


def _prompts(found: Found, frame: Frame) -> None:
    told, meant = frame.ints["prompt_tokens"], frame.ints["prompt_tokens_meant"]
    off = (told >= 0) & (meant > 0) & (told != meant)
    if off.any():
        counts = (told - meant)[off]
        found.add(
            ("prompt_token_error", "total_tokens_per", "cost_per_1m_total", "ttft"),
            f"{off.sum()} prompts differ from their meant length by {counts.min():+d} to {counts.max():+d} tokens: "
            "count with the server's own tokenizer",
        )


def _censoring(found: Found, values: Mapping[str, float]) -> None:
    """Of a chunk that came in one read with the next, only an interval is known in which it arrived."""
    share = values.get("merged_chunk_fraction", 0.0)
    if share > CENSORED:
        found.add(
            ("itl",),
            f"{share:.0%} of chunks came in the same read as the one before (speculation, or a client that is late), "
            "so gaps are known only as intervals: use tpot",
        )


def _in_step(found: Found, frame: Frame, window: Window) -> None:
    step = lock_step(frame, window)
    if step and step.resultant >= IN_STEP and step.p < BY_CHANCE:
        waves = "all together" if step.waves == 1 else f"in {step.waves} waves"
        found.add(
            (*_LATENCIES, "lock_step"),
            f"the {step.starts} requests of a cycle start {waves} (resultant {step.resultant:.2f}, Rayleigh's p "
            f"{max(step.p, 0.001):.3f}), so latencies are those of bursts: use starts: desynchronised and a longer "
            "warm-up, or lengths that vary",
        )


def _unsteady(found: Found, frame: Frame, window: Window, values: Mapping[str, float]) -> bool:
    """Two signs: the halves of the window differ, or the window holds what MSER-5 would cut off and that changes the
    rate by more than 2 % and two standard errors."""
    first, second = values["output_tokens_per_s_first_half"], values["output_tokens_per_s_second_half"]
    halves = f"{first:.4g} tokens/s in the first half of the window, {second:.4g} in the second"
    steady, rate = steady_state(frame, window), values["output_tokens_per_s"]
    opens = _opens_s(frame, window)
    late = steady is not None and (not steady.found or steady.after_s > opens)
    warming = steady is not None and late and _apart(steady.rate, rate) > DISAGREEMENT + 2 * steady.error
    if not warming and _apart(first, second) <= UNSTEADY:
        return False
    says = ""
    if steady is not None and late:
        cut = f"only after {steady.after_s:.1f} s, and the window opens after {opens:.1f} s"
        says = f"; steady by MSER-5 {cut if steady.found else 'at no time'}"
    found.load.append(f"not steady: {halves}{says}: lengthen warm-up and window")
    return True


def _opens_s(frame: Frame, window: Window) -> float:
    """Seconds from the first request to the start of the window."""
    sent = frame.sent_ns[~frame.dropped]
    return (window.start_ns - int(sent.min())) / NANOS_PER_SECOND if len(sent) else 0.0


def _little(found: Found, frame: Frame, window: Window, values: Mapping[str, float]) -> None:
    """Little's law against the throughput; its own sampling error (two standard errors) is allowed for."""
    little, seen = values.get("little_output_tokens_per_s"), values["output_tokens_per_s"]
    times = (frame.end_ns - frame.sent_ns)[ended_well(frame, window)]
    if little is None or len(times) < 2 or not seen or not times.any():
        return
    error = 2 * float(times.std(ddof=1)) / float(times.mean()) / math.sqrt(len(times))
    if abs(little / seen - 1) > DISAGREEMENT + error:
        found.add(
            ("output_tokens_per", "cost_per_1m_output", "little"),
            f"Little's law gives {little:.4g} tokens/s, the chunks {seen:.4g}: "
            "lengthen warm-up and window until they agree",
        )


def _server_count(found: Found, frame: Frame, before: Snapshot, after: Snapshot) -> None:
    """The server's counter against ours.

    Some servers count a token when it is made, others all tokens of a request when it ends, and each
    reading lies somewhere between its asking and its answer; only outside all of that is a doubt.
    """
    server = difference(before, after).get("output_tokens")
    if server is None:
        return
    widest, narrowest = (before.asked_ns, after.at_ns), (before.at_ns, after.asked_ns)
    as_made = [frame.tokens_between(*span) for span in (narrowest, widest)]
    at_end = [_tokens_by_end(frame, *span) for span in (narrowest, widest)]
    if _within(server, as_made) or _within(server, at_end):
        return
    found.add(
        ("output_tokens_per", "cost_per_1m_output", "counter"),
        f"the server counted {server:.0f} output tokens where {as_made[1]:.0f} arrived here: "
        "make sure that nobody else uses it, and lengthen the window",
    )


def _apart(one: float, other: float) -> float:
    """Relative difference of two rates, by the larger."""
    return abs(one - other) / max(one, other) if max(one, other) else 0.0


def _within(value: float, bounds: Sequence[float]) -> bool:
    return bounds[0] * (1 - DISAGREEMENT) <= value <= bounds[1] * (1 + DISAGREEMENT)


def _tokens_by_end(frame: Frame, start: Nanos, end: Nanos) -> float:
    return int(np.maximum(frame.output_tokens[inside(frame.end_ns, Window(start, end))], 0).sum())
