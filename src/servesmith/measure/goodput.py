"""Goodput: the requests that met every limit, each judged once, at the moment its fate was known. Pure.

As in DistServe (Zhong et al., OSDI 2024, arxiv.org/abs/2401.09670). A request is lost when it breaks a limit, not when
it ends: so one that never ends counts against the server, and one that was cut off by the end of the load counts only
if it had broken a limit by then.
"""

from collections.abc import Callable, Mapping
from typing import get_args

import msgspec
import numpy as np

from servesmith.measure.frame import Frame, Ints, Mask, inside
from servesmith.measure.intervals import wilson
from servesmith.measure.records import ChunkKind, Window
from servesmith.measure.samples import has_span, tpot_ms
from servesmith.recipe.model import RequestLimit
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND


class Goodput(msgspec.Struct, frozen=True):
    """How many requests met all limits, of those whose fate was known inside the window."""

    met: int
    judged: int
    requests_per_s: float
    share: float
    low: float
    high: float
    """Wilson's 95 % interval of the share."""
    unjudged: int = 0
    """Requests that ended well and whose tokens were not counted, so that a limit on them could not be judged."""


REQUEST_LIMITS: tuple[RequestLimit, ...] = get_args(RequestLimit)

_NEVER = np.iinfo(np.int64).max
_LONGEST = 2.0**60


def goodput(frame: Frame, window: Window, limits: Mapping[RequestLimit, float]) -> Goodput | None:
    """Judge every request by `limits`: the largest value that is allowed, by name.

    None: no limit, or no request whose fate was known inside the window. A limit on something
    that a request cannot have (a TPOT with a single token) is met.
    """
    broken_at = np.full(len(frame), _NEVER, np.int64)
    known = np.ones(len(frame), np.bool_)
    for name, limit in limits.items():
        if name in _AT_END:
            breaks, knows = _AT_END[name](frame, limit)
            known &= knows
            moment = np.where(breaks & frame.ok, frame.end_ns, _NEVER)
        else:
            moment = _deadline_broken(frame, name, limit)
        broken_at = np.minimum(broken_at, moment)
    failed = ~frame.ok & ~frame.cancelled
    broken_at = np.minimum(broken_at, np.where(failed, frame.end_ns, _NEVER))
    lost = inside(broken_at, window)
    ended = frame.ok & inside(frame.end_ns, window) & (broken_at == _NEVER)
    met, judged = int((ended & known).sum()), int((ended & known).sum() + lost.sum())
    if not limits or not judged or window.seconds <= 0:
        return None
    return Goodput(met, judged, met / window.seconds, met / judged, *wilson(met, judged), int((ended & ~known).sum()))


def _deadline_broken(frame: Frame, name: str, limit: float) -> Ints:
    """When each request broke a limit that holds from its start: the deadline itself, if nothing had come by then."""
    start = frame.due_ns if "_due_" in name else frame.sent_ns
    allowed = limit * (NANOS_PER_MS if name.endswith("_ms") else NANOS_PER_SECOND)
    deadline = start + round(min(allowed, _LONGEST))
    if name.startswith("e2e"):
        came = np.where(frame.cancelled, _NEVER, frame.end_ns)
    else:
        events = frame.first(frame.of_kind(ChunkKind.CONTENT)) if "content" in name else frame.first_token
        came = np.where(events.there, events.at_ns, _NEVER)
    seen_until = np.where(frame.cancelled, frame.end_ns, _NEVER)
    never_came = frame.ok & (came == _NEVER) & (deadline > frame.end_ns)
    return np.where(never_came, frame.end_ns, np.where((came > deadline) & (deadline <= seen_until), deadline, _NEVER))


def _slow_tokens(frame: Frame, limit: float) -> tuple[Mask, Mask]:
    breaks, has = np.zeros(len(frame), np.bool_), has_span(frame)
    breaks[has] = tpot_ms(frame, has) > limit
    return breaks, frame.output_tokens >= 0


def _slow_for_its_length(frame: Frame, limit: float) -> tuple[Mask, Mask]:
    known = frame.output_tokens >= 0
    allowed = limit * NANOS_PER_MS * np.maximum(frame.output_tokens, 1)
    return known & (frame.end_ns - frame.due_ns > allowed), known


_AT_END: dict[str, Callable[[Frame, float], tuple[Mask, Mask]]] = {
    "tpot_ms": _slow_tokens,
    "normalised_latency_ms": _slow_for_its_length,
}
"""Limits that can only be judged at the end: name to which requests break it, and of which it is known."""
