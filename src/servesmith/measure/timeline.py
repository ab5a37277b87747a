"""A load over time, for whoever draws it: token rate, requests in flight and TTFT in equal parts. Pure."""

from itertools import pairwise

import msgspec
import numpy as np

from servesmith.measure.frame import Floats, Frame, Ints, inside
from servesmith.measure.records import Window
from servesmith.measure.samples import first_seen
from servesmith.measure.steady import token_rates
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Seconds

BINS = 50


class Timeline(msgspec.Struct, frozen=True):
    """Parallel columns, one entry a part. `start_s` counts from the start of the span."""

    part_s: Seconds
    start_s: tuple[float, ...]
    output_tokens_per_s: tuple[float, ...]
    in_flight: tuple[float, ...]
    """Mean number of requests under way."""
    ttft_p50_ms: tuple[float | None, ...]
    """Of requests whose first token came in the part, sent to first token; None: there was none."""
    ttft_max_ms: tuple[float | None, ...]


def timeline(frame: Frame, span: Window, bins: int = BINS) -> Timeline:
    """`bins` equal parts of a span of time: the measured window, or the whole load to see its warm-up. Raises
    ValueError for an empty span."""
    if span.end_ns <= span.start_ns or bins < 1:
        raise ValueError("a timeline needs a span of time and at least one part")
    edges = span.start_ns + (span.end_ns - span.start_ns) * np.arange(bins + 1) // bins
    part_s = span.seconds / bins
    rates, flying = token_rates(frame, span, bins), _in_flight(frame, edges)
    low, high = _first_tokens(frame, span, bins)
    starts = tuple(part_s * number for number in range(bins))
    return Timeline(part_s, starts, tuple(rates.tolist()), flying, low, high)


def _in_flight(frame: Frame, edges: Ints) -> tuple[float, ...]:
    """Mean requests under way between neighbouring edges, from the time that all together have flown by each."""
    sent, end = np.sort(frame.sent_ns[~frame.dropped]), np.sort(frame.end_ns[~frame.dropped])
    flown = _time_since(sent, edges) - _time_since(end, edges)
    return tuple((np.diff(flown) / (np.diff(edges) / NANOS_PER_SECOND)).tolist())


def _time_since(events: Ints, edges: Ints) -> Floats:
    """At each edge, the sum over all earlier events of the seconds since them."""
    seconds = (events - edges[0]) / NANOS_PER_SECOND
    before = np.searchsorted(events, edges)
    sums = np.concatenate(([0.0], np.cumsum(seconds)))
    return before * ((edges - edges[0]) / NANOS_PER_SECOND) - sums[before]


def _first_tokens(frame: Frame, span: Window, bins: int) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Median and largest TTFT of each part."""
    first = frame.first_token
    which = first_seen(frame, span) & inside(first.at_ns, span)
    waits = (first.at_ns - frame.sent_ns)[which] / NANOS_PER_MS
    places = (first.at_ns[which] - span.start_ns) * bins // (span.end_ns - span.start_ns)
    order = np.argsort(places, kind="stable")
    edges = np.searchsorted(places[order], np.arange(bins + 1))
    parts = [waits[order][low:high] for low, high in pairwise(edges)]
    return (
        tuple(float(np.median(part)) if len(part) else None for part in parts),
        tuple(float(part.max()) if len(part) else None for part in parts),
    )
