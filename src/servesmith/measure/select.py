"""Which requests, chunks and tokens a number is made of. Pure."""

import math
from collections.abc import Sequence
from itertools import pairwise

from servesmith.measure.records import TOKEN_KINDS, RequestRecord, Window
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


def token_stamps(record: RequestRecord) -> list[Nanos]:
    """Arrival of every chunk that carries tokens."""
    return [stamp for stamp, kind in zip(record.chunk_ns, record.chunk_kinds, strict=True) if kind in TOKEN_KINDS]


def gaps(record: RequestRecord, window: Window) -> list[Nanos]:
    """Times between neighbouring token chunks of which both lie in the window."""
    stamps = [stamp for stamp in token_stamps(record) if inside(stamp, window)]
    return [later - earlier for earlier, later in pairwise(stamps)]


def tokens_between(records: Sequence[RequestRecord], start: Nanos, end: Nanos) -> float:
    """Output tokens whose chunk arrived in [start, end). Additive: [a, b) and [b, c) make [a, c)."""
    return math.fsum(
        tokens
        for record in records
        for stamp, tokens in zip(record.chunk_ns, record.chunk_tokens, strict=True)
        if start <= stamp < end
    )
