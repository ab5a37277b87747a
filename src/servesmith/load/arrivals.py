"""When requests are due in an open loop: an absolute schedule, drawn before the load from a seed. Pure.

Every process is a point process of unit rate, carried over to the clock by the inverse of the cumulative rate
N(t), the expected number of arrivals until t (time change of a renewal process: Cox and Lewis, The Statistical
Analysis of Series of Events, 1966). So no error adds up along the schedule, and the number of arrivals is drawn too:
nothing is rescaled to make a total come out.

Gaps are gamma distributed of shape `burstiness` and mean 1: their coefficient of variation is burstiness**-0.5. That is
what `vllm bench serve --burstiness` means too (https://docs.vllm.ai/en/latest/cli/bench/serve.html); 1 is Poisson.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Arrivals, Step
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds
from servesmith.workload.traces import Trace, read_trace, window

Times = NDArray[np.float64]
MOST = 1_000_000
"""Arrivals that fit into memory with their requests."""


class Schedule(msgspec.Struct, frozen=True):
    """When requests are due."""

    due_ns: tuple[Nanos, ...]
    """From the start of the load, rising."""
    trace: Trace | None = None
    """Process trace: the row of every arrival, in the same order; lengths and shared blocks are in it."""
    notes: tuple[str, ...] = ()
    """What was left out or put in order; for the doubts of the load."""


def schedule(arrivals: Arrivals, seed: int, duration_s: Seconds) -> Schedule:
    """All arrivals with 0 <= due < duration; equal seeds give equal times, on every machine.

    Raises InputError if the trace cannot be read, if nothing is due in the duration, or too much.
    """
    if arrivals.process == "trace":
        planned = _of_trace(arrivals, duration_s)
    else:
        expected = expected_arrivals(arrivals, duration_s)
        if expected > MOST:
            message = f"{expected:.3g} arrivals would be due in {duration_s:g} s; {MOST:,} can be held."
            raise InputError(Problem(message, "Lower the rate or the duration.", field="load.arrivals.rate"))
        gaps = _even if _is_even(arrivals) else _drawn(arrivals.burstiness, seed)
        units = _below(gaps, expected)
        seconds = _inverse(arrivals, duration_s)(units)
        due = np.floor(seconds * NANOS_PER_SECOND).astype(np.int64)
        planned = Schedule(tuple(due[due < int(duration_s * NANOS_PER_SECOND)].tolist()))
    if not planned.due_ns:
        message = f"Nothing is due in the {duration_s:g} s of warm-up and window."
        raise InputError(Problem(message, "Raise the rate or make the window longer.", field="load.arrivals"))
    return planned


def expected_arrivals(arrivals: Arrivals, duration_s: Seconds) -> float:
    """The cumulative rate N(duration): the mean of the number of arrivals, for every process but trace."""
    if arrivals.process == "ramp":
        return (arrivals.rate + arrivals.to_rate) / 2 * duration_s
    if arrivals.process == "steps":
        starts, counts = _stairs(arrivals.steps)
        return float(np.interp(duration_s, starts, counts))
    return arrivals.rate * duration_s


def _of_trace(arrivals: Arrivals, duration_s: Seconds) -> Schedule:
    whole = read_trace(Path(arrivals.trace), arrivals.trace_format)
    part = window(whole, arrivals.start_s, arrivals.end_s, arrivals.speedup)
    rows = tuple(row for row in part.rows if row.offset_ns < duration_s * NANOS_PER_SECOND)
    notes = list(whole.notes)
    if len(rows) < len(part.rows):
        late = len(part.rows) - len(rows)
        notes.append(f"{late} of {len(part.rows)} rows of the trace are due after the window's end: not sent")
    elif part.span_ns < duration_s * NANOS_PER_SECOND:
        notes.append(f"the trace ends after {part.span_ns / NANOS_PER_SECOND:.1f} s, the load after {duration_s:g} s")
    due = tuple(row.offset_ns for row in rows)
    return Schedule(due, msgspec.structs.replace(part, rows=rows), tuple(notes))


# --- the point process of unit rate


def _is_even(arrivals: Arrivals) -> bool:
    return arrivals.process == "constant" or (arrivals.process in ("ramp", "steps") and arrivals.spacing == "even")


def _even(count: int) -> Times:
    """0, 1, 2 ...: the first request is due at once."""
    return np.arange(count, dtype=np.float64)


def _drawn(burstiness: float, seed: int) -> Callable[[int], Times]:
    """Sums of gamma gaps of mean 1. RandomState, since numpy keeps its streams as they are for good (NEP 19)."""
    digest = hashlib.sha256(f"{seed}/arrivals".encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").astype(np.uint32)

    def times(count: int) -> Times:
        gaps = np.random.RandomState(words).standard_gamma(burstiness, size=count) / burstiness
        return np.cumsum(gaps)

    return times


def _below(points: Callable[[int], Times], limit: float) -> Times:
    """All points below `limit`. What is drawn first does not hang on how many are drawn."""
    count = int(limit + 10 * limit**0.5) + 100
    while True:
        times = points(count)
        if times[-1] >= limit:
            return times[times < limit]
        count *= 2


# --- from units to seconds


def _inverse(arrivals: Arrivals, duration_s: Seconds) -> Callable[[Times], Times]:
    """t at which N(t) reaches n."""
    if arrivals.process == "ramp":
        return lambda units: _ramp(units, arrivals.rate, arrivals.to_rate, duration_s)
    if arrivals.process == "steps":
        starts, counts = _stairs(arrivals.steps)
        return lambda units: _climb(units, starts, counts)
    return lambda units: units / arrivals.rate


def _ramp(units: Times, rate: float, to_rate: float, seconds: Seconds) -> Times:
    """Solve rate t + (to_rate - rate) t**2 / (2 seconds) = n, in the form that is exact when it is nearly flat."""
    slope = (to_rate - rate) / seconds
    root = np.sqrt(np.maximum(rate**2 + 2 * slope * units, 0.0))
    total = rate + root
    return np.divide(2 * units, total, out=np.zeros_like(units), where=total > 0)


def _stairs(steps: tuple[Step, ...]) -> tuple[Times, Times]:
    """Times at which the steps begin and the last one ends, and N at these times."""
    starts = np.cumsum([0.0, *(step.seconds for step in steps)])
    counts = np.cumsum([0.0, *(step.rate * step.seconds for step in steps)])
    return starts, counts


def _climb(units: Times, starts: Times, counts: Times) -> Times:
    """Piecewise linear; where N is flat (a pause), what falls on its edge is due at its end."""
    place = np.clip(np.searchsorted(counts, units, side="right") - 1, 0, len(starts) - 2)
    rates = np.diff(counts) / np.diff(starts)
    rate = rates[place]
    return starts[place] + np.divide(units - counts[place], rate, out=np.zeros_like(units), where=rate > 0)
