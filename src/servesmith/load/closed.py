"""The closed loop: each stream sends its next request when its last one has ended."""

import asyncio
import gc
import statistics
import time
from array import array
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from servesmith.load.client import watch_limits
from servesmith.load.decode import Turn, decode
from servesmith.load.http1 import Address, MalformedResponse, dechunk, request_bytes
from servesmith.load.loop import run
from servesmith.load.wire import Channel, Clock, Exchange, Limits
from servesmith.measure.counters import Snapshot, common, parse
from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.select import gaps
from servesmith.recipe.model import Load
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds
from servesmith.workload.base import Prompt

_BEAT_S = 0.005
_PROGRESS_S = 0.5
_CHECK_S = 0.25
_SCRAPE_S = 2.0
_PAUSE_S = 0.1
"""Rest of a stream after a failure, so that a server that refuses everything does not eat all prompts."""
LAG_DOUBT_MS = 10.0
LAG_REFUSAL_MS = 50.0


@dataclass(frozen=True)
class Progress:
    """How far a load has come. `chunks` are reads off the wire: about one a token, good for a live view only."""

    elapsed_s: Seconds
    remaining_s: Seconds
    chunks: int
    finished: int


@dataclass(frozen=True)
class Lag:
    """How late the client itself was inside the window: overrun of a timer of 5 ms, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


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
    """Called twice a second from another thread."""
    clock: Clock = time.monotonic_ns


@dataclass(frozen=True)
class LoadOutcome:
    """What a load gave. Requests in flight when it ended are `cancelled`; their chunks inside the window count."""

    records: tuple[RequestRecord, ...]
    window: Window
    doubts: tuple[str, ...]
    lag: Lag
    hang: bool = False
    """True if it was stopped because no stream gave a token, or ended at all, for `load.first_token_s`."""
    client_too_slow: bool = False
    """True if the client's lag makes its latencies worthless: they must not be reported."""
    counters: tuple[Snapshot, Snapshot] | None = None
    """The server's counters at both ends of the window, if it has them."""


def run_closed(
    url: str,
    prompts: Sequence[Prompt],
    load: Load,
    *,
    settings: Settings = Settings(),
) -> LoadOutcome:
    """Drive `load.streams` streams through warm-up and window, each prompt at most once, in order.

    `prompts` must be enough; that they ran out is a doubt. Raises InputError if `url` is no address, else
    nothing: what goes wrong is in the records.
    """
    address = Address.parse(url)
    requests = [request_bytes(address, prompt.path, prompt.body, settings.key) for prompt in prompts]
    return run(_ClosedLoop(address, prompts, requests, load, settings).go())


class _ClosedLoop:
    """State of one load under way."""

    def __init__(
        self, address: Address, prompts: Sequence[Prompt], requests: Sequence[bytes], load: Load, settings: Settings
    ) -> None:
        self._load = load
        self._settings = settings
        self._clock = settings.clock
        self._waiting = iter(zip(prompts, requests, strict=True))
        limits = replace(settings.limits, first_token_s=load.first_token_s)
        self._channels = [Channel(address, limits, settings.clock) for _ in range(load.streams)]
        self._turns: list[Turn] = []
        self._lags: array[int] = array("q")
        self._stop = asyncio.Event()
        self._ran_out_ns: Nanos = 0
        self._hang = False
        self._scraper = Channel(address, replace(limits, connect_s=_SCRAPE_S), settings.clock)
        self._scrape_request = (
            request_bytes(address, settings.counters_path, key=settings.key) if settings.counters_path else b""
        )

    async def go(self) -> LoadOutcome:
        """Open connections, warm up, measure, stop, and only then decode."""
        await asyncio.gather(*(channel.open() for channel in self._channels))
        with _no_garbage_collection():
            start = self._clock()
            opens = start + int(self._load.warmup_s * NANOS_PER_SECOND)
            closes = opens + int(self._load.window_s * NANOS_PER_SECOND)
            streams = [asyncio.create_task(self._stream(n, start)) for n in range(self._load.streams)]
            tasks = [asyncio.create_task(work) for work in self._companions(streams, start, closes)]
            for task in tasks:
                task.add_done_callback(lambda _: self._stop.set())
            try:
                await self._until(opens)
                del self._lags[:]
                before = asyncio.create_task(self._scrape())
                await self._until(closes)
                ended = self._clock()
                scrapes = (await before, await self._scrape())
            finally:
                await self._end([*streams, *tasks])
        closes = min(closes, ended, self._ran_out_ns or closes)
        return self._outcome(Window(min(opens, closes), closes), scrapes)

    def _companions(
        self, streams: Sequence[asyncio.Task[None]], start: Nanos, closes: Nanos
    ) -> list[Coroutine[Any, Any, None]]:
        work: list[Coroutine[Any, Any, None]] = [
            self._heartbeat(),
            watch_limits(self._channels),
            self._watch_life(),
            self._watch_end(streams),
        ]
        if self._settings.on_progress:
            work.append(self._report(self._settings.on_progress, start, closes))
        return work

    async def _stream(self, number: int, start: Nanos) -> None:
        await asyncio.sleep(self._offset(number))
        channel = self._channels[number]
        for prompt, request in self._waiting:
            exchange = channel.exchange(request)
            self._turns.append(
                Turn(exchange, prompt.index, number, self._clock(), prompt.prompt_tokens, prompt.output_tokens)
            )
            await channel.ask(exchange)
            if exchange.error or (exchange.head and exchange.head.status != 200):
                await asyncio.sleep(_PAUSE_S)
        self._ran_out_ns = self._ran_out_ns or self._clock()

    def _offset(self, number: int) -> Seconds:
        """Start of a stream: its share of a request's duration, so that they do not walk in step."""
        if self._load.starts == "together":
            return 0.0
        spread = min(self._load.warmup_s, self._settings.cycle_s or self._load.warmup_s)
        return spread * number / self._load.streams

    async def _until(self, when: Nanos) -> None:
        """Wait for a time, or until the load is stopped. Timers of uvloop may fire a little early, hence the loop."""
        while not self._stop.is_set() and (left := when - self._clock()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), left / NANOS_PER_SECOND)

    async def _heartbeat(self) -> None:
        beat = int(_BEAT_S * NANOS_PER_SECOND)
        while True:
            due = self._clock() + beat
            await asyncio.sleep(_BEAT_S)
            self._lags.append(max(0, self._clock() - due))

    async def _watch_life(self) -> None:
        """Stop the load when nothing at all comes: no token, and no end that the server brought about."""
        alive, ended = self._clock(), 0
        while True:
            await asyncio.sleep(_CHECK_S)
            now = self._clock()
            ends = sum(turn.exchange.ended.is_set() and "timeout" not in turn.exchange.error for turn in self._turns)
            alive = max(alive, *(channel.token_ns for channel in self._channels), now if ends > ended else 0)
            ended = ends
            if (now - alive) / NANOS_PER_SECOND > self._load.first_token_s:
                self._hang = True
                self._stop.set()

    async def _watch_end(self, streams: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.wait(streams, return_when=asyncio.FIRST_EXCEPTION)

    async def _report(self, tell: Callable[[Progress], None], start: Nanos, closes: Nanos) -> None:
        """Tell how far it is, in a thread: drawing a screen must not delay a stamp."""
        while True:
            await asyncio.sleep(_PROGRESS_S)
            now = self._clock()
            progress = Progress(
                (now - start) / NANOS_PER_SECOND,
                max(0, closes - now) / NANOS_PER_SECOND,
                sum(len(turn.exchange.stamps) for turn in self._turns),
                sum(turn.exchange.ended.is_set() for turn in self._turns),
            )
            await asyncio.to_thread(tell, progress)

    async def _scrape(self) -> Exchange | None:
        if not self._scrape_request:
            return None
        exchange = self._scraper.exchange(self._scrape_request)
        try:
            await asyncio.wait_for(self._scraper.ask(exchange), _SCRAPE_S)
        except TimeoutError:
            self._scraper.abort("timeout-total")
        return exchange

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """End what is in flight, then the tasks; a fault in one of them is raised, not lost."""
        for channel in self._channels:
            channel.abort("cancelled")
        self._scraper.abort("cancelled")
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def _outcome(self, window: Window, scrapes: tuple[Exchange | None, Exchange | None]) -> LoadOutcome:
        sent = [turn for turn in self._turns if turn.exchange.sent_ns]
        records = tuple(decode(sent, count_text=self._settings.count_text))
        before, after = (_snapshot(scrape) for scrape in scrapes)
        lag = _lag(self._lags)
        return LoadOutcome(
            records,
            window,
            _doubts(self._load, lag, (self._ran_out_ns - window.start_ns) if self._ran_out_ns else None),
            lag,
            hang=self._hang,
            client_too_slow=lag.p99_ms > _lag_limit_ms(records, window),
            counters=(before, after) if before and after else None,
        )


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _snapshot(exchange: Exchange | None) -> Snapshot | None:
    """The counters in a response to a scrape; None if it has none."""
    if exchange is None or exchange.error or exchange.head is None or exchange.head.status != 200:
        return None
    with suppress(MalformedResponse):
        values = common(parse(dechunk(exchange.buffer, exchange.head).data.decode("utf-8", "replace")))
        return Snapshot(exchange.sent_ns, exchange.end_ns, values) if values else None
    return None


def _lag(lags: Sequence[Nanos]) -> Lag:
    ordered = sorted(lags) or [0]
    p50, p99, last = (ordered[int(share * (len(ordered) - 1))] / NANOS_PER_MS for share in (0.50, 0.99, 1.0))
    return Lag(p50, p99, last)


def _lag_limit_ms(records: Sequence[RequestRecord], window: Window) -> float:
    """Half of the median token gap, but not under the doubt (timers are not better) and never above 50 ms."""
    all_gaps = [gap for record in records for gap in gaps(record, window)]
    half = statistics.median(all_gaps) / 2 / NANOS_PER_MS if all_gaps else LAG_REFUSAL_MS
    return min(LAG_REFUSAL_MS, max(LAG_DOUBT_MS, half))


def _doubts(load: Load, lag: Lag, ran_out_ns: Nanos | None) -> tuple[str, ...]:
    """What the load knows against its own numbers, each with what would remove it."""
    doubts: list[str] = []
    if load.starts == "together" and load.streams > 1:
        doubts.append("all streams started together, so they may run in lock-step: use starts: desynchronised")
    if lag.p99_ms > LAG_DOUBT_MS:
        doubts.append(
            f"the client was late by {lag.p99_ms:.0f} ms (p99), so latencies may be too high by as much: "
            "leave it a core of its own"
        )
    if ran_out_ns is not None:
        at = f"{ran_out_ns / NANOS_PER_SECOND:.1f} s after the window opened" if ran_out_ns > 0 else "in the warm-up"
        doubts.append(f"the prompts ran out {at}, and the window ends there: draw more prompts")
    return tuple(doubts)
