"""Which requests, chunks and tokens a number is made of, for whoever holds records; numbers use `frame.py`. Pure."""

from collections.abc import Sequence

from servesmith.measure.frame import frame_of
from servesmith.measure.records import RequestRecord, Window
from servesmith.units import Nanos


def inside(stamp: Nanos | None, window: Window) -> bool:
    """True if there is a stamp and it lies in the window, whose end is open."""
    return stamp is not None and window.start_ns <= stamp < window.end_ns


def ended_well(records: Sequence[RequestRecord], window: Window) -> list[RequestRecord]:
    """Requests that ended inside the window as they were asked."""
    return [record for record in records if record.ok and inside(record.end_ns, window)]


def first_seen(records: Sequence[RequestRecord], window: Window) -> list[RequestRecord]:
    """Requests whose first token fell into the window and that did not fail (being cancelled is no failure)."""
    return [record for record in records if record.error in ("", "cancelled") and inside(record.first_token_ns, window)]


def tokens_between(records: Sequence[RequestRecord], start: Nanos, end: Nanos) -> float:
    """Output tokens whose chunk arrived in [start, end). Additive: [a, b) and [b, c) make [a, c)."""
    return frame_of(records).tokens_between(start, end)
