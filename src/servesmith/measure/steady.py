"""From when on a load was steady, and whether its requests walk in step. Pure.

Steady state: MSER-5. K. P. White, An effective truncation heuristic for bias reduction in simulation output, Simulation
69 (1997) 323; compared with others in White, Cobb and Spratt, WSC 2000. The series is cut where the squared standard
error of the mean of the rest, sum of (y - mean)^2 / m^2, is least. A cut in the second half means that the series is
too short.

Lock-step: closed loops of equal lengths finish and start together, and then a latency is that of a burst. The starts of
a cycle are put on a circle; if they gather, their resultant is long (Mardia and Jupp, Directional Statistics, 2000).
Up to four waves a cycle are looked for, by the same test on multiples of the angle.
"""

import math
from itertools import pairwise

import msgspec
import numpy as np

from servesmith.measure.frame import Floats, Frame, Ints, inside
from servesmith.measure.records import Window
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds

BATCH = 5
"""Observations a batch; the 5 of MSER-5."""
BATCHES = 50
"""Batches that a load is cut into."""
_EVEN = 1e-4
"""Relative spread below which batches count as equal, so that rounding does not choose the cut."""
_MOST_WAVES = 4
_WAVE = 4
"""Requests that a wave must have on average, for there to be something to see."""
_MOST_CYCLES = 200


class Steady(msgspec.Struct, frozen=True):
    """What MSER-5 found in the token rate from the first request to the end of the window."""

    found: bool
    after_s: Seconds
    """Seconds from the first request to the first steady batch, or to where it cut, if that was too late."""
    rate: float
    """Output tokens/s from there on."""
    error: float
    """Its standard error, relative, as if batches were independent."""
    batch_s: Seconds


class LockStep(msgspec.Struct, frozen=True):
    """How the starts of requests lie in the cycle of a stream."""

    resultant: float
    """0: evenly, 1: `waves` times all at once. Median over the cycles inside the window."""
    waves: int
    starts: int
    """Requests a cycle, median."""
    p: float
    """Chance of such a resultant if starts were scattered at random; corrected for the numbers of waves tried."""


def mser(values: Floats) -> int | None:
    """How many values to cut off in front; None: the best cut lies in the second half, so there is no steady rest.

    `values` are means of batches. O(n).
    """
    count = len(values)
    if count < 2 * BATCH:
        return None
    centred = values - values.mean()
    left = np.arange(count, 0, -1, dtype=np.float64)
    sums, squares = (np.cumsum(part[::-1])[::-1] for part in (centred, centred * centred))
    floor = left * (_EVEN * values.mean()) ** 2
    errors = np.maximum(squares - sums * sums / left, floor) / (left * left)
    cut = int(np.argmin(errors[: count - BATCH + 1]))
    return cut if cut <= count // 2 else None


def steady_state(frame: Frame, window: Window) -> Steady | None:
    """MSER-5 on the token rate of 50 batches from the first request to the end of the window; None: too few tokens.

    The token rate is used and not the latency of requests, so that requests still under way count.
    """
    sent = frame.sent_ns[~frame.dropped]
    start = int(sent.min()) if len(sent) else window.end_ns
    span = window.end_ns - start
    if span <= 0:
        return None
    rates = token_rates(frame, Window(start, window.end_ns), BATCH * BATCHES)
    if np.count_nonzero(rates) < BATCHES:
        return None
    batches = rates.reshape(BATCHES, BATCH).mean(axis=1)
    batch_s = span / NANOS_PER_SECOND / BATCHES
    cut = mser(batches)
    at = cut if cut is not None else BATCHES // 2
    rest = batches[at:]
    rate = float(rest.mean())
    error = float(rest.std(ddof=1)) / math.sqrt(len(rest)) / rate if rate else math.inf
    return Steady(cut is not None, at * batch_s, rate, error, batch_s)


def token_rates(frame: Frame, window: Window, bins: int) -> Floats:
    """Output tokens/s of equal parts of the window, by the stamp of each chunk."""
    within = inside(frame.chunk_ns, window)
    places = (frame.chunk_ns[within] - window.start_ns) * bins // (window.end_ns - window.start_ns)
    sums = np.bincount(places, weights=frame.chunk_tokens[within], minlength=bins)
    return sums / (window.seconds / bins)


def lock_step(frame: Frame, window: Window) -> LockStep | None:
    """Whether the streams of a closed loop start their requests together. None: one stream, or no whole cycle."""
    cycle = _cycle(frame)
    if cycle is None:
        return None
    starts = np.sort(frame.sent_ns[~frame.dropped & inside(frame.sent_ns, window)])
    cycles = min((window.end_ns - window.start_ns) // cycle, _MOST_CYCLES)
    edges = np.searchsorted(starts, window.start_ns + cycle * np.arange(cycles + 1))
    turns = [starts[low:high] for low, high in pairwise(edges) if high > low]
    if not turns:
        return None
    count = int(np.median([len(turn) for turn in turns]))
    waves = range(1, max(1, min(_MOST_WAVES, count // _WAVE)) + 1)
    lengths = [float(np.median([_resultant(turn, cycle / wave) for turn in turns])) for wave in waves]
    best = int(np.argmax(lengths))
    p = min(1.0, rayleigh_p(lengths[best], count) * len(lengths))
    return LockStep(lengths[best], waves[best], count, p)


def rayleigh_p(resultant: float, count: int) -> float:
    """Chance of a resultant of at least this length from so many random directions (Zar, Biostatistical Analysis, 2010,
    eq. 27.4)."""
    length = resultant * count
    return min(1.0, math.exp(math.sqrt(1 + 4 * count + 4 * (count * count - length * length)) - (1 + 2 * count)))


def _cycle(frame: Frame) -> Nanos | None:
    """Median time from one start of a stream to its next; None where there are not several streams with two each."""
    sent, stream = frame.sent_ns[~frame.dropped], frame.ints["stream"][~frame.dropped]
    order = np.lexsort((sent, stream))
    same = np.diff(stream[order]) == 0
    if not same.any() or stream.min() == stream.max():
        return None
    cycle = int(np.median(np.diff(sent[order])[same]))
    return cycle if cycle > 0 else None


def _resultant(starts: Ints, period: float) -> float:
    angles = (starts - starts[0]) * (2 * math.pi / period)
    return float(np.hypot(np.cos(angles).mean(), np.sin(angles).mean()))
