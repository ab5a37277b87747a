"""The samples that percentiles and means are taken of: one value a request, or one a gap. Pure.

Which requests: TTFT those whose first token fell into the window and that did not fail (cut off by the end of the load
is no failure: the token was seen); TPOT, end to end and phases those that ended well inside it; lateness those due
inside it.
"""

from collections.abc import Mapping

import numpy as np

from servesmith.measure.frame import Events, Floats, Frame, Ints, Mask, inside
from servesmith.measure.records import ChunkKind, Window
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND

LATE_NS = 10 * NANOS_PER_MS
"""A request that was sent so long after it was due counts as late."""

POOLED = ("itl",)
"""Samples with several values a request; these hang together too closely for an interval."""


def samples_of(frame: Frame, window: Window) -> dict[str, Floats]:
    """Sample by its stem in the table: `ttft`, `e2e_due`, ... in the unit of its keys. Empty where there is none."""
    seen, ended = first_seen(frame, window), ended_well(frame, window)
    first, content = frame.first_token, frame.first(frame.of_kind(ChunkKind.CONTENT))
    event = frame.first(np.ones(len(frame.chunk_ns), np.bool_))
    sent, due, end = frame.sent_ns, frame.due_ns, frame.end_ns
    asked = ended & (frame.output_tokens > 0)
    return {
        "ttft": _ms((first.at_ns - sent)[seen]),
        "ttft_due": _ms((first.at_ns - due)[seen]),
        "ttft_content": _ms((content.at_ns - sent)[_seen(frame, content, window)]),
        "first_event": _ms((event.at_ns - sent)[_seen(frame, event, window)]),
        "tpot": tpot_ms(frame, has_span(frame) & ended),
        "itl": _ms(gaps(frame, window)[0]),
        "e2e": (end - sent)[ended] / NANOS_PER_SECOND,
        "e2e_due": (end - due)[ended] / NANOS_PER_SECOND,
        "normalised_latency": _ms((end - due)[asked]) / frame.output_tokens[asked],
        "send_late": _ms((sent - due)[due_inside(frame, window) & ~frame.dropped]),
        "client_lag": _ms(
            frame.ints["client_lag_ns"][under_way(frame, window) & frame.having("stamp_source", "kernel")]
        ),
    }


def first_seen(frame: Frame, window: Window) -> Mask:
    """Requests whose first token fell into the window and that did not fail."""
    return _seen(frame, frame.first_token, window)


def ended_well(frame: Frame, window: Window) -> Mask:
    """Requests that ended inside the window as they were asked."""
    return frame.ok & inside(frame.end_ns, window)


def due_inside(frame: Frame, window: Window) -> Mask:
    """Requests that were due inside the window, sent or not."""
    return inside(frame.due_ns, window)


def under_way(frame: Frame, window: Window) -> Mask:
    """Requests that were in flight at some time of the window."""
    return ~frame.dropped & (frame.sent_ns < window.end_ns) & (frame.end_ns >= window.start_ns)


def has_span(frame: Frame) -> Mask:
    """Requests with at least two known tokens and a chunk that carries one: those that have a TPOT."""
    return frame.first_token.there & (frame.output_tokens > 1)


def decode_span(frame: Frame) -> Ints:
    """Last minus first token chunk of each request, in ns; means something where `has_span`."""
    return frame.last_token_ns - frame.first_token.at_ns


def tpot_ms(frame: Frame, which: Mask) -> Floats:
    """Time per output token after the first, of these requests."""
    return decode_span(frame)[which] / (frame.output_tokens[which] - 1) / NANOS_PER_MS


def gaps(frame: Frame, window: Window) -> tuple[Ints, int]:
    """Times between distinct arrivals of token chunks of one request, both inside the window; and how many chunks have
    none of their own, because one read brought them with the chunk before."""
    places = np.flatnonzero(frame.is_token & inside(frame.chunk_ns, window))
    owner = frame.owner[places]
    between = np.diff(frame.chunk_ns[places])[owner[1:] == owner[:-1]]
    distinct = between[between != 0]
    return distinct, len(between) - len(distinct)


def percentiles(sample: Floats, quantiles: Mapping[str, float]) -> dict[str, float]:
    """Percentiles by linear interpolation (type 7 of Hyndman and Fan, The American Statistician 50 (1996) 361)."""
    return {
        name: float(value) for name, value in zip(quantiles, np.quantile(sample, [*quantiles.values()]), strict=True)
    }


def _seen(frame: Frame, events: Events, window: Window) -> Mask:
    return (frame.ok | frame.cancelled) & events.inside(window)


def _ms(nanos: Ints) -> Floats:
    return nanos / NANOS_PER_MS
