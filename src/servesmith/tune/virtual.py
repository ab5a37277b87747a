"""The sim engine in virtual time: no process, no HTTP, no waiting, and the same numbers for the same seeds.

A recipe with `engine: sim` and `executable: [virtual]` is run here. The model is the sim server's own
(engine/simmodel.py); only the clock differs. It exists to test the loop: a whole tune takes seconds.
"""

import bisect
import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.engine.base import Facts, Failure
from servesmith.engine.sim import VIRTUAL, options_of
from servesmith.engine.simmodel import Schedule, SimOptions, answer, factor, read_ask
from servesmith.errand import LoadErrand
from servesmith.errors import MachineError
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import ChunkKind, RequestRecord, Window
from servesmith.measure.startup import Startup, startup_numbers, write_startup
from servesmith.probing import PrefillErrand, StartErrand, keep_prefill
from servesmith.quality.errand import QualityErrand, examined
from servesmith.recipe.model import Load, Recipe, Workload
from servesmith.store.events import TrialResult
from servesmith.store.hashing import folder_digests
from servesmith.store.watch import Watcher
from servesmith.trial import Order, fresh_folder, write_facts, write_outcome
from servesmith.units import NANOS_PER_SECOND, Seconds

Caches = Literal["cold", "warm"]
EPOCH = "1970-01-01T00:00:00+00:00"


def is_virtual(recipe: Recipe) -> bool:
    """True if the recipe is run here and not on a server."""
    return recipe.engine == "sim" and recipe.executable == VIRTUAL


class VirtualExecutor:
    """Trials of the sim engine in no time at all."""

    def run(self, order: Order, folder: Path, watch: Watcher) -> TrialResult:
        """Play the trial; files and result are like those of a real one, but for the clock."""
        where = fresh_folder(folder, order)
        (where / "engine.log").write_text("virtual time: no process was started\n")
        (where / "command.txt").write_text("virtual\n")
        options = options_of(order.recipe)
        write_facts(where, Facts("sim", "1", {name: str(value) for name, value in asdict(options).items()}))
        outcome, seconds = _played(order, options, where, watch)
        write_outcome(where, order, outcome)
        return TrialResult(
            key=order.key,
            folder=str(where.relative_to(folder)),
            recipe_hash=order.recipe.digest(),
            ending=outcome.ending,
            seed=order.seed,
            began=EPOCH,
            seconds=round(seconds + options.slow_start, 3),
            ready_seconds=round(0.5 + options.slow_start, 3),
            failure=outcome.failure.kind,
            log_line=outcome.failure.log_line,
            metrics=outcome.metrics,
            files=folder_digests(where),
        )


def _played(order: Order, options: SimOptions, folder: Path, watch: Watcher) -> tuple[Outcome, Seconds]:
    if options.oom_at_start:
        return Outcome("failed", Failure("out-of-memory", "sim: out of memory (planted)")), 0.5
    if options.crash_at_start:
        return Outcome("failed", Failure("crash", "sim: crash at start (planted)")), 0.5
    if options.hang_from_start:
        return Outcome("failed", Failure("hang", "sim: never a token (planted)")), 60.0
    match order.errand:
        case LoadErrand(load=load):
            return _loaded(order, options, folder), load.warmup_s + load.window_s
        case QualityErrand():
            return _asked(order, order.errand, options, folder, watch), 5.0
        case StartErrand(caches=caches):
            return _started(order, options, folder, caches)
        case PrefillErrand():
            return _prefilled(order, order.errand, options, folder)
        case _:
            raise MachineError("The virtual engine does not know this errand.", "Use a real engine.")


def _asked(order: Order, errand: QualityErrand, options: SimOptions, folder: Path, watch: Watcher) -> Outcome:
    desk = Desk(url="", pid=0, key="", folder=folder, trial=order.key, seed=order.seed, watch=watch)
    return examined(errand, desk, options.served_name, lambda bodies, _: [_answered(body, options) for body in bodies])


def _answered(body: bytes, options: SimOptions) -> RequestRecord:
    words, finish = answer(read_ask(msgspec.json.decode(body), options, chat=True), options)
    return RequestRecord(index=0, stream=0, due_ns=0, sent_ns=0, end_ns=0, finish=finish, text=" ".join(words))


def _started(order: Order, options: SimOptions, folder: Path, caches: Caches) -> tuple[Outcome, Seconds]:
    """Half a second to health, longer from emptied caches, with the noise of the start on all of it."""
    speed = factor(options.noise_restart, options.seed, order.seed, order.key)
    health = speed * (0.5 + options.slow_start + (options.cold_start if caches == "cold" else 0.0))
    token = health + Schedule(options, speed).first(1)
    stamps = [round(seconds * NANOS_PER_SECOND) for seconds in (health, token)]
    startup = Startup(exec_ns=0, health_ns=stamps[0], first_token_ns=stamps[1], caches=caches)
    write_startup(folder, startup)
    return Outcome("ok", metrics=startup_numbers(startup)), token


def _prefilled(order: Order, errand: PrefillErrand, options: SimOptions, folder: Path) -> tuple[Outcome, Seconds]:
    """Prompts take the slots in turn, `concurrency` of them sent at a time."""
    schedule = Schedule(options, factor(options.noise_restart, options.seed, order.seed, order.key))
    tokens = errand.workload.prompt_tokens
    senders = [0.0] * min(errand.concurrency, errand.prompts)
    slots = [0.0] * options.slots
    records: list[RequestRecord] = []
    for index in range(errand.prompts):
        sent = heapq.heappop(senders)
        done = max(sent, heapq.heappop(slots)) + schedule.first(tokens)
        heapq.heappush(senders, done)
        heapq.heappush(slots, done)
        request = _Request(index, 0, sent, [done])
        records.append(_record(request, errand.workload, done, ""))
    return keep_prefill(folder, records), max(senders)


def _loaded(order: Order, options: SimOptions, folder: Path) -> Outcome:
    assert isinstance(order.errand, LoadErrand)
    workload, load = order.errand.workload, order.errand.load
    end = load.warmup_s + load.window_s
    speed = factor(options.noise_restart, options.seed, order.seed, order.key)
    records = _Loop(Schedule(options, speed), workload, load).play(end)
    counters = Counters(memory=_memory(records, end, options.leak_mib), terms=order.errand.terms)
    window = Window(int(load.warmup_s * NANOS_PER_SECOND), int(end * NANOS_PER_SECOND))
    measured = Measured(records=records, window=window, doubts=(), counters=counters)
    write_measured(folder, measured)
    metrics = numbers(measured)
    if not metrics["output_tokens_per_s"].value:
        return Outcome("failed", Failure("hang", "not one token arrived while the window was open"), metrics)
    return Outcome("ok", metrics=metrics)


def _memory(records: Sequence[RequestRecord], end: Seconds, leak_mib: float) -> tuple[tuple[int, float], ...]:
    """100 MiB and what the requests sent so far have leaked, twice a second. Nothing where nothing leaks."""
    if not leak_mib:
        return ()
    sent = sorted(record.sent_ns for record in records)
    stamps = range(0, round(end * NANOS_PER_SECOND), NANOS_PER_SECOND // 2)
    return tuple((stamp, 100.0 + leak_mib * bisect.bisect_right(sent, stamp)) for stamp in stamps)


class _Request(msgspec.Struct):
    """One request under way."""

    index: int
    stream: int
    sent: Seconds
    stamps: list[Seconds] = []


class _Loop:
    """Streams, slots and steps as the sim server plays them, event by event."""

    def __init__(self, schedule: Schedule, workload: Workload, load: Load) -> None:
        self._schedule, self._workload = schedule, workload
        self._numbers, self._tickets = itertools.count(), itertools.count()
        self._events: list[tuple[Seconds, int, _Request]] = []
        self._waiting: deque[_Request] = deque()
        self._running = 0
        spread = load.warmup_s / load.streams if load.starts == "desynchronised" else 0.0
        self._arrivals = [(stream * spread, stream) for stream in range(load.streams)]
        self.records: list[RequestRecord] = []

    def play(self, end: Seconds) -> tuple[RequestRecord, ...]:
        """Everything that is sent before `end`, what is then in flight as cancelled."""
        while True:
            arrival = self._arrivals[0][0] if self._arrivals else end
            token = self._events[0][0] if self._events else end
            if min(arrival, token) >= end:
                break
            if arrival <= token:
                now, stream = self._arrivals.pop(0)
                self._send(now, stream)
            else:
                now, _, request = heapq.heappop(self._events)
                self._token(now, request)
        for request in (*self._waiting, *(entry[2] for entry in sorted(self._events, key=lambda entry: entry[:2]))):
            self.records.append(_record(request, self._workload, end, "cancelled"))
        return tuple(sorted(self.records, key=lambda record: record.index))

    def _send(self, now: Seconds, stream: int) -> None:
        request = _Request(next(self._numbers), stream, now)
        if self._running < self._schedule.options.slots:
            self._grant(now, request)
        else:
            self._waiting.append(request)

    def _grant(self, now: Seconds, request: _Request) -> None:
        self._running += 1
        self._push(now + self._schedule.first(self._workload.prompt_tokens), request)

    def _token(self, now: Seconds, request: _Request) -> None:
        request.stamps.append(now)
        if len(request.stamps) < self._workload.output_tokens:
            self._push(now + self._schedule.step(self._running, now), request)
            return
        self.records.append(_record(request, self._workload, now, ""))
        self._running -= 1
        if self._waiting:
            self._grant(now, self._waiting.popleft())
        self._send(now, request.stream)

    def _push(self, due: Seconds, request: _Request) -> None:
        heapq.heappush(self._events, (due, next(self._tickets), request))


def _record(request: _Request, workload: Workload, end: Seconds, error: Literal["", "cancelled"]) -> RequestRecord:
    stamps = tuple(round(stamp * NANOS_PER_SECOND) for stamp in request.stamps)
    sent = round(request.sent * NANOS_PER_SECOND)
    return RequestRecord(
        index=request.index,
        stream=request.stream,
        due_ns=sent,
        sent_ns=sent,
        end_ns=round(end * NANOS_PER_SECOND),
        chunk_ns=stamps,
        chunk_tokens=(1.0,) * len(stamps),
        chunk_kinds=(int(ChunkKind.CONTENT),) * len(stamps),
        prompt_tokens_meant=workload.prompt_tokens,
        prompt_tokens=workload.prompt_tokens,
        output_tokens_meant=workload.output_tokens,
        output_tokens=len(stamps),
        finish="" if error else "length",
        token_source="ids",
        error=error,
    )
