"""What a load gave: records in order, and what the load knows against its own numbers."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from servesmith.load.conduct import Gathered, Lag, Settings, in_order
from servesmith.load.decode import settle
from servesmith.load.drive import WAITED
from servesmith.measure.counters import Snapshot
from servesmith.measure.records import RequestRecord, Window
from servesmith.recipe.model import Load
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds

LAG_DOUBT_MS = 10.0
LAG_REFUSAL_MS = 50.0
LATE_DOUBT_MS = 10.0
LATE_REFUSAL_MS = 100.0
IDLE_REFUSAL = 0.05
"""Share of the streams' time that was the client's own turn-round from which on the load was not the one asked for."""


@dataclass(frozen=True)
class LoadOutcome:
    """Requests in flight when the load ended are `cancelled`; their chunks inside the window count."""

    records: tuple[RequestRecord, ...]
    window: Window
    doubts: tuple[str, ...]
    lag: Lag
    hang: bool = False
    """True if it was stopped because no stream gave a token, or ended at all, for `load.first_token_s`."""
    client_too_slow: str = ""
    """Why the client's latencies are worthless and must not be reported; empty: they are not."""
    counters: tuple[Snapshot, Snapshot] | None = None
    """The server's counters at both ends of the window, if it has them."""
    workers: int = 1
    hot_cpu_s: Seconds = 0.0
    """CPU time of the measuring processes while the load ran."""
    all_cpu_s: Seconds = field(default=0.0)
    """The same with connecting and decoding."""


def outcome_of(gathered: Gathered, load: Load, settings: Settings, workers: int) -> LoadOutcome:
    """Count the tokens that are still open, and judge the client."""
    records = in_order(settle(gathered.readings, settings.count_text))
    slow = too_slow(records, gathered.window, gathered.lag, streams=0 if load.arrivals else load.streams)
    return LoadOutcome(
        records,
        gathered.window,
        tuple(_doubts(load, records, gathered, slow)),
        gathered.lag,
        hang=gathered.hang,
        client_too_slow=slow,
        counters=gathered.counters,
        workers=workers,
        hot_cpu_s=gathered.hot_cpu_s,
        all_cpu_s=gathered.all_cpu_s,
    )


def too_slow(records: Sequence[RequestRecord], window: Window, lag: Lag, *, streams: int) -> str:
    """Why the client could not keep up, empty if it could. `streams`: of a closed loop; 0: an open one.

    Where the kernel stamps, a late client stamps no token wrongly, but it holds fewer requests in flight than it was
    asked to, or sends them late; and when it is later than tokens follow each other, it no longer sees them apart.
    """
    gap = _token_gap_ms(records)
    limit = min(LAG_REFUSAL_MS, max(LAG_DOUBT_MS, 2 * gap if lag.source == "kernel" else gap / 2))
    if lag.p99_ms > limit:
        return f"the client was late by {lag.p99_ms:.0f} ms (p99), where {limit:.0f} ms can be borne"
    inside = [r for r in records if window.start_ns <= r.due_ns < window.end_ns]
    if streams and (idle := _idle_share(inside, window, streams)) > IDLE_REFUSAL:
        return f"the client left its streams idle for {idle:.0%} of their time, so the load was not the one asked for"
    if not streams and (late := _lateness_ms(inside)) > LATE_REFUSAL_MS:
        return f"the client sent its requests late by {late:.0f} ms (p99), so the load was not the one asked for"
    return ""


def _token_gap_ms(records: Sequence[RequestRecord]) -> float:
    """Median over requests of the mean time between chunks, which reads that merge do not touch."""
    gaps = [
        (last - first) / (len(record.chunk_ns) - 1) / NANOS_PER_MS
        for record in records
        if len(record.chunk_ns) > 1 and (first := record.first_token_ns) and (last := record.last_token_ns)
    ]
    return statistics.median(gaps) if gaps else LAG_REFUSAL_MS


def _idle_share(inside: Sequence[RequestRecord], window: Window, streams: int) -> float:
    """Closed loop: time between due and sent, the client's turn-round, over the time of all streams in the window."""
    waited = sum(r.sent_ns - r.due_ns for r in inside) / NANOS_PER_SECOND
    return waited / (streams * window.seconds) if window.seconds > 0 else 0.0


def _lateness_ms(inside: Sequence[RequestRecord]) -> float:
    """Open loop: p99 of sent minus due, of those that did not wait for a place."""
    lates = sorted(r.sent_ns - r.due_ns for r in inside if r.error != "dropped" and not r.detail.startswith(WAITED))
    return lates[int(0.99 * (len(lates) - 1))] / NANOS_PER_MS if lates else 0.0


def _doubts(load: Load, records: Sequence[RequestRecord], gathered: Gathered, slow: str) -> list[str]:
    """Each with what would remove it."""
    doubts: list[str] = []
    lag = gathered.lag
    if load.arrivals is None and load.starts == "together" and load.streams > 1:
        doubts.append("all streams started together, so they may run in lock-step: use starts: desynchronised")
    if slow:
        doubts.append(f"{slow}: give it a core of its own, or more workers")
    elif lag.p99_ms > LAG_DOUBT_MS:
        touched = "gaps between tokens may be off" if lag.source == "kernel" else "latencies may be too high"
        doubts.append(
            f"the client was late by {lag.p99_ms:.0f} ms (p99), so {touched} by as much: leave it a core of its own"
        )
    if gathered.ran_out_ns:
        doubts.append(_ran_out(gathered.ran_out_ns - gathered.window.start_ns))
    if load.arrivals is not None:
        doubts.extend(_open_doubts(records, gathered.window, load, slow))
    return doubts


def _ran_out(after_ns: Nanos) -> str:
    at = f"{after_ns / NANOS_PER_SECOND:.1f} s after the window opened" if after_ns > 0 else "in the warm-up"
    return f"the prompts ran out {at}, and the window ends there: measure again, or shorten load.window_s"


def _open_doubts(records: Sequence[RequestRecord], window: Window, load: Load, slow: str) -> list[str]:
    """What did not go by the schedule."""
    inside = [r for r in records if window.start_ns <= r.due_ns < window.end_ns]
    doubts: list[str] = []
    dropped = sum(r.error == "dropped" for r in inside)
    waited = sum(r.detail.startswith(WAITED) for r in inside)
    if dropped:
        doubts.append(f"{dropped} of {len(inside)} requests that were due were never sent: lower the rate")
    if waited:
        bound = load.arrivals.max_in_flight if load.arrivals else 0
        doubts.append(
            f"{waited} of {len(inside)} requests waited for a place among {bound} in flight, so latencies from sent "
            "flatter the server: read those from due, or raise max_in_flight"
        )
    late = _lateness_ms(inside)
    if late > LATE_DOUBT_MS and not slow:
        doubts.append(f"the client sent its requests late by {late:.0f} ms (p99): leave it a core of its own")
    return doubts
