"""A run as its journal tells it: what was opened, how it was closed, and every trial's result by key."""

from collections.abc import Sequence

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.records import Metric
from servesmith.store.events import Event, Resumed, RunClosed, RunOpened, TrialEnded, TrialResult

START_TIME = "ready_seconds"
"""Key under which a trial's start time, exec to first served token, is read like a metric."""

RESUMABLE = ("tune", "knee", "prefill", "start", "soak")
"""Verbs with --resume: their runs can be gone on with. A demo is a tune."""


class Replay(msgspec.Struct, frozen=True):
    """The state of a run after its last event."""

    opened: RunOpened
    closed: RunClosed | None
    """The last event, resuming apart; None: the run is open, or its end was cut off."""
    events: tuple[Event, ...]
    results: dict[str, TrialResult]
    """By key. A trial that was repeated on resume stands here with its last result."""


def replay(events: Sequence[Event]) -> Replay:
    """Read a journal's events. Raises EvidenceError if the first one does not open a run."""
    last = next((event for event in reversed(events) if not isinstance(event, Resumed)), None)
    closed = last if isinstance(last, RunClosed) else None
    results = {event.result.key: event.result for event in events if isinstance(event, TrialEnded)}
    return Replay(opened_of(events), closed, tuple(events), results)


def opened_of(events: Sequence[Event]) -> RunOpened:
    """The first event. Raises EvidenceError if it does not open a run."""
    if events and isinstance(events[0], RunOpened):
        return events[0]
    raise EvidenceError("journal.jsonl", "the first event does not open a run.", "Was the head of it cut off?")


def reading(result: TrialResult, metric: str) -> Metric | None:
    """One number of a trial with its doubts; the start time is read like any metric. None: it has none."""
    if metric == START_TIME:
        return Metric(result.ready_seconds, "s", "lower") if result.ready_seconds > 0 else None
    return result.metrics.get(metric)
