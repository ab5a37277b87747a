"""A load from the parent's side: times, progress, counters, life signs; then everything gathered into one outcome."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from servesmith.load.client import fetch
from servesmith.load.crew import Crew
from servesmith.load.decode import Reading
from servesmith.load.http1 import Address, MalformedResponse, dechunk, request_bytes
from servesmith.load.job import Go, Job, Part, Report, Tick
from servesmith.load.wire import Limits
from servesmith.measure.counters import Snapshot, common, parse
from servesmith.measure.records import RequestRecord, Window
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds

_PROGRESS_NS: Nanos = NANOS_PER_SECOND // 2
_TOLD_LATE_S: Seconds = 0.5
"""A sign of life is up to so old when it is heard of."""
_LISTEN_S: Seconds = 0.25
_SCRAPE = Limits(connect_s=2.0, first_token_s=2.0, idle_s=2.0, total_s=2.0)
_LEAD_NS: Nanos = NANOS_PER_SECOND // 20
"""From telling the workers their times to the first of these."""


@dataclass(frozen=True)
class Progress:
    """How far a load has come. `chunks` are reads off the wire: about one a token, good for a live view only."""

    elapsed_s: Seconds
    remaining_s: Seconds
    chunks: int
    finished: int


@dataclass(frozen=True)
class Settings:
    """How the client works, as against what is asked. `key` is a bearer key: sent, never stored."""

    key: str = field(default="", repr=False)
    limits: Limits = field(default_factory=Limits)
    cycle_s: Seconds = 0.0
    """Estimated duration of a request, over which desynchronised starts spread; 0: over the whole warm-up."""
    counters_path: str = "/metrics"
    """Read as the window opens and closes; empty: not."""
    count_text: Callable[[str], int] | None = None
    """Tokens of a text, for servers that do not say how many tokens a chunk has."""
    on_progress: Callable[[Progress], None] | None = None
    """Called twice a second. It may take its time: no stamp waits for it."""
    chunks_per_s: float = 0.0
    """Expected rate, from which the number of workers is chosen where the load does not set it."""
    keep_text: bool = False
    kernel_stamps: bool = True
    """False: stamp as on a system whose kernel does not; to measure what that costs."""


@dataclass(frozen=True)
class Lag:
    """How late the client itself was inside the window, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    source: str = "kernel"
    """`kernel`: read minus arrival, of every read. `timer`: overrun of a timer of 5 ms."""


@dataclass(frozen=True)
class Gathered:
    """All workers' shares in one."""

    readings: tuple[Reading, ...]
    window: Window
    lag: Lag
    hang: bool
    ran_out_ns: Nanos
    counters: tuple[Snapshot, Snapshot] | None
    hot_cpu_s: float
    """CPU time of the workers while the load ran."""
    all_cpu_s: float
    """The same with connecting and decoding."""


@dataclass(frozen=True)
class Times:
    """Of a load, in seconds from its start."""

    warmup_s: Seconds
    window_s: Seconds
    silence_s: Seconds
    """No token from anybody for so long is a hang."""
    drain_s: Seconds = 0.0
    """Open loop: how long answers may take after the window."""

    def go(self, start_ns: Nanos) -> Go:
        """The same in the clock of the machine."""
        opens = start_ns + int(self.warmup_s * NANOS_PER_SECOND)
        closes = opens + int(self.window_s * NANOS_PER_SECOND)
        return Go(start_ns, opens, closes, closes + int(self.drain_s * NANOS_PER_SECOND), drain=self.drain_s > 0)


def conduct(address: Address, jobs: Sequence[Job], times: Times, settings: Settings) -> Gathered:
    """Run these jobs side by side. Raises MachineError if a worker dies, and whatever `on_progress` raises."""
    with Crew(jobs) as crew:
        crew.wait_until_ready()
        go = times.go(time.monotonic_ns() + _LEAD_NS)
        crew.go(go)
        return _Conductor(address, crew, go, times, settings).listen(len(jobs))


class _Conductor:
    """State of one load under way."""

    def __init__(self, address: Address, crew: Crew, go: Go, times: Times, settings: Settings) -> None:
        self._address = address
        self._crew = crew
        self._go = go
        self._times = times
        self._settings = settings
        self._ticks: dict[int, Tick] = {}
        self._readings: dict[int, list[Reading]] = defaultdict(list)
        self._reports: dict[int, Report] = {}
        self._snapshots: list[Snapshot | None] = []
        self._tell_ns: Nanos = go.start_ns + _PROGRESS_NS
        self._stopped_ns: Nanos = 0
        self._hang = False

    def listen(self, workers: int) -> Gathered:
        """Until every worker has reported."""
        while len(self._reports) < workers:
            with suppress(TimeoutError):
                number, message = self._crew.hear(self._wait())
                if isinstance(message, Tick):
                    self._ticks[number] = message
                elif isinstance(message, Part):
                    self._readings[number].extend(message.readings)
                elif isinstance(message, Report):
                    self._reports[number] = message
            now = time.monotonic_ns()
            self._scrape(now)
            self._watch_life(now)
            self._tell(now)
        return self._gather()

    def _wait(self) -> Seconds:
        """Until something of our own is due."""
        now = time.monotonic_ns()
        due = [now + int(_LISTEN_S * NANOS_PER_SECOND)]
        if self._settings.on_progress and max(now, self._tell_ns) < self._go.closes_ns:
            due.append(self._tell_ns)
        if len(self._snapshots) < 2:
            due.append((self._go.opens_ns, self._go.closes_ns)[len(self._snapshots)])
        return max(0.0, (min(due) - now) / NANOS_PER_SECOND)

    def _scrape(self, now: Nanos) -> None:
        taken = len(self._snapshots)
        if taken < 2 and now >= (self._go.opens_ns, self._go.closes_ns)[taken]:
            self._snapshots.append(self._counters() if self._settings.counters_path else None)

    def _counters(self) -> Snapshot | None:
        """The server's counters; None if it has none."""
        request = request_bytes(self._address, self._settings.counters_path, key=self._settings.key)
        exchange = fetch(self._address, request, _SCRAPE)
        if exchange.error or exchange.head is None or exchange.head.status != 200:
            return None
        with suppress(MalformedResponse):
            values = common(parse(dechunk(exchange.buffer, exchange.head).data.decode("utf-8", "replace")))
            return Snapshot(exchange.sent_ns, exchange.end_ns, values) if values else None
        return None

    def _watch_life(self, now: Nanos) -> None:
        """Stop the load when nothing at all comes: no token, and no end that the server brought about."""
        alive = max(self._go.start_ns, *(tick.alive_ns for tick in self._ticks.values()), 0)
        silent = (now - alive) / NANOS_PER_SECOND > self._times.silence_s + _TOLD_LATE_S
        if silent and not self._stopped_ns and now < self._go.closes_ns:
            self._hang, self._stopped_ns = True, now
            self._crew.stop()

    def _tell(self, now: Nanos) -> None:
        tell = self._settings.on_progress
        if tell is None or now < self._tell_ns or now >= self._go.closes_ns:
            return
        self._tell_ns += _PROGRESS_NS
        tell(
            Progress(
                (now - self._go.start_ns) / NANOS_PER_SECOND,
                max(0, self._go.closes_ns - now) / NANOS_PER_SECOND,
                sum(tick.reads for tick in self._ticks.values()),
                sum(tick.finished for tick in self._ticks.values()),
            )
        )

    def _gather(self) -> Gathered:
        reports = [self._reports[number] for number in sorted(self._reports)]
        ran_out = min((report.ran_out_ns for report in reports if report.ran_out_ns), default=0)
        closes = min(self._go.closes_ns, self._stopped_ns or self._go.closes_ns, ran_out or self._go.closes_ns)
        before, after = (*self._snapshots, None, None)[:2]
        return Gathered(
            readings=tuple(reading for number in sorted(self._readings) for reading in self._readings[number]),
            window=Window(min(self._go.opens_ns, closes), closes),
            lag=_lag(reports),
            hang=self._hang,
            ran_out_ns=ran_out,
            counters=(before, after) if before and after else None,
            hot_cpu_s=sum(report.hot_cpu_s for report in reports),
            all_cpu_s=sum(report.all_cpu_s for report in reports),
        )


def _lag(reports: Sequence[Report]) -> Lag:
    lags = np.concatenate([np.frombuffer(report.lags_us, dtype=np.int32) for report in reports])
    source = "timer" if any(report.lag_source == "timer" for report in reports) else "kernel"
    if not lags.size:
        return Lag(0.0, 0.0, 0.0, source)
    p50, p99, most = (float(np.quantile(lags, share)) / 1000 for share in (0.50, 0.99, 1.0))
    return Lag(p50, p99, most, source)


def in_order(records: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """Records of several workers as they were sent."""
    return tuple(sorted(records, key=lambda record: (record.sent_ns, record.index)))
