"""The closed loop: each stream sends its next request when its last one has ended."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from servesmith.load.conduct import Gathered, Lag, Progress, Settings, Times, conduct, in_order
from servesmith.load.crew import choose_workers
from servesmith.load.decode import settle
from servesmith.load.http1 import Address, request_bytes
from servesmith.load.job import Ask, Job, Lane, Session
from servesmith.load.wire import Limits
from servesmith.measure.counters import Snapshot
from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.select import gaps
from servesmith.recipe.model import Load
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds
from servesmith.workload.base import Prompt

__all__ = ["Lag", "LoadOutcome", "Progress", "Settings", "run_closed"]

LAG_DOUBT_MS = 10.0
LAG_REFUSAL_MS = 50.0
IDLE_REFUSAL = 0.05
"""Share of the streams' time that was the client's own turn-round from which on the load was not the one asked for."""


@dataclass(frozen=True)
class LoadOutcome:
    """What a load gave. Requests in flight when it ended are `cancelled`; their chunks inside the window count."""

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
    all_cpu_s: Seconds = 0.0
    """The same with connecting and decoding."""


def run_closed(url: str, prompts: Sequence[Prompt], load: Load, *, settings: Settings = Settings()) -> LoadOutcome:  # noqa: B008 - frozen
    """Drive `load.streams` streams through warm-up and window, each prompt at most once.

    Stream s of n takes prompts s, s + n, s + 2n ..., so that what it asks does not hang on how fast others were.
    `prompts` must be enough; that they ran out is a doubt. Raises InputError if `url` is no address or more workers are
    asked for than there are cores, MachineError if the host has no address or a worker dies. What goes wrong with a
    request is in its record.
    """
    address = Address.parse(url)
    workers = min(choose_workers(load.workers, settings.chunks_per_s), load.streams)
    limits = replace(settings.limits, first_token_s=load.first_token_s)
    lanes = _lanes(address, prompts, load, settings)
    jobs = [_job(address, limits, lanes[number::workers], settings) for number in range(workers)]
    times = Times(load.warmup_s, load.window_s, load.first_token_s)
    return _outcome(conduct(address, jobs, times, settings), load, settings, workers)


def _job(address: Address, limits: Limits, lanes: Sequence[Lane], settings: Settings) -> Job:
    return Job(address=address, limits=limits, lanes=tuple(lanes), keep_text=settings.keep_text)


def _lanes(address: Address, prompts: Sequence[Prompt], load: Load, settings: Settings) -> list[Lane]:
    asks = [
        Ask(p.index, request_bytes(address, p.path, p.body, settings.key), p.prompt_tokens, p.output_tokens)
        for p in prompts
    ]
    return [
        Lane(stream, _offset(stream, load, settings), tuple(Session((ask,)) for ask in asks[stream :: load.streams]))
        for stream in range(load.streams)
    ]


def _offset(stream: int, load: Load, settings: Settings) -> Nanos:
    """Start of a stream: its share of a request's duration, so that they do not walk in step."""
    if load.starts == "together":
        return 0
    spread = min(load.warmup_s, settings.cycle_s or load.warmup_s)
    return int(spread * NANOS_PER_SECOND) * stream // load.streams


def _outcome(gathered: Gathered, load: Load, settings: Settings, workers: int) -> LoadOutcome:
    records = in_order(settle(gathered.readings, settings.count_text))
    window = gathered.window
    slow = _too_slow(records, window, gathered.lag)
    return LoadOutcome(
        records,
        window,
        _doubts(load, gathered, slow),
        gathered.lag,
        hang=gathered.hang,
        client_too_slow=slow,
        counters=gathered.counters,
        workers=workers,
        hot_cpu_s=gathered.hot_cpu_s,
        all_cpu_s=gathered.all_cpu_s,
    )


def _too_slow(records: Sequence[RequestRecord], window: Window, lag: Lag) -> str:
    """Why the client could not keep up, empty if it could.

    Where the kernel stamps, a late client stamps no token wrongly, but it holds fewer requests in flight than it was
    asked to; and when it is later than tokens follow each other, it no longer sees them apart.
    """
    gap = _median_gap_ms(records, window)
    limit = 2 * gap if lag.source == "kernel" else gap / 2
    limit = min(LAG_REFUSAL_MS, max(LAG_DOUBT_MS, limit))
    if lag.p99_ms > limit:
        return f"the client was late by {lag.p99_ms:.0f} ms (p99), where {limit:.0f} ms can be borne"
    idle = _idle_share(records, window)
    if idle > IDLE_REFUSAL:
        return f"the client left its streams idle for {idle:.0%} of their time, so the load was not the one asked for"
    return ""


def _median_gap_ms(records: Sequence[RequestRecord], window: Window) -> float:
    all_gaps = [gap for record in records for gap in gaps(record, window)]
    return statistics.median(all_gaps) / NANOS_PER_MS if all_gaps else LAG_REFUSAL_MS


def _idle_share(records: Sequence[RequestRecord], window: Window) -> float:
    """Time between due and sent over time in flight, of requests sent inside the window: the client's turn-round."""
    inside = [r for r in records if window.start_ns <= r.sent_ns < window.end_ns]
    waited = sum(r.sent_ns - r.due_ns for r in inside)
    flown = sum(r.end_ns - r.sent_ns for r in inside)
    return waited / (waited + flown) if waited + flown > 0 else 0.0


def _doubts(load: Load, gathered: Gathered, slow: str) -> tuple[str, ...]:
    """What the load knows against its own numbers, each with what would remove it."""
    doubts: list[str] = []
    lag, ran_out, opens = gathered.lag, gathered.ran_out_ns, gathered.window.start_ns
    if load.starts == "together" and load.streams > 1:
        doubts.append("all streams started together, so they may run in lock-step: use starts: desynchronised")
    if slow:
        doubts.append(f"{slow}: give it a core of its own, or more workers")
    elif lag.p99_ms > LAG_DOUBT_MS:
        touched = "gaps between tokens may be off" if lag.source == "kernel" else "latencies may be too high"
        doubts.append(
            f"the client was late by {lag.p99_ms:.0f} ms (p99), so {touched} by as much: leave it a core of its own"
        )
    if ran_out:
        after = (ran_out - opens) / NANOS_PER_SECOND
        at = f"{after:.1f} s after the window opened" if after > 0 else "in the warm-up"
        doubts.append(f"the prompts ran out {at}, and the window ends there: draw more prompts")
    return tuple(doubts)
