"""A worker's share of a load on one reactor: who sends what when. Knows no processes."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from servesmith.load.channel import Channel, Target
from servesmith.load.decode import Turn
from servesmith.load.job import Ask, Go, Job, Lane, Session, Tick
from servesmith.load.reactor import Reactor
from servesmith.load.stamps import StampReader
from servesmith.load.wire import Exchange
from servesmith.units import NANOS_PER_MS, Nanos, Seconds

WAITED = "waited for its turn: "
"""How the detail of a request begins that was due while as many as allowed were in flight."""
CHECK_S: Seconds = 0.25
_TICK_S: Seconds = 0.25
_SYNC_S: Seconds = 0.1
_BEAT_S: Seconds = 0.005
_PAUSE_NS: Nanos = 100 * NANOS_PER_MS
"""Rest of a stream after a failure, so that a server that refuses everything does not eat all prompts."""
_UNPACKED = 2048
"""Ended exchanges that may wait to be made small."""
_OPENING = 64
"""Connections under way at a time."""
_SPARE = 8
"""Open loop: connections held ready beyond those that are busy."""


class _Plan(Protocol):
    """Decides what is sent next: a closed or an open loop."""

    ran_out_ns: Nanos

    def start(self, go: Go) -> None: ...

    def end(self) -> None: ...


class Driver:
    """One load under way: channels, turns, limits, progress."""

    def __init__(self, job: Job, reactor: Reactor) -> None:
        self.job = job
        self.reactor = reactor
        self.turns: list[Turn] = []
        self.beats: list[Nanos] = []
        self.stopped = False
        self.finished = 0
        self._to_pack: deque[Exchange] = deque()
        self.alive_ns: Nanos = 0
        self._stamps = StampReader(kernel=job.kernel_stamps)
        self._target = Target.resolve(job.address)
        self._channels: list[Channel] = []
        self._plan: _Plan = _Closed(self, job.lanes) if job.lanes else _Open(self, job)

    def channel(self) -> Channel:
        """One more channel, not connected yet."""
        channel = Channel(self.reactor, self._target, self.job.limits, self._stamps)
        self._channels.append(channel)
        return channel

    def connect(self, then: Callable[[], None]) -> None:
        """Open all channels, some at a time: a server's queue of connections is short. `then`: all tried."""
        self.reactor.every(CHECK_S, self._check)
        waiting = deque(self._channels)
        under_way = 0

        def go_on() -> None:
            nonlocal under_way
            under_way -= 1
            if waiting:
                under_way += 1
                waiting.popleft().open(go_on)
            elif not under_way:
                then()

        under_way = first = min(_OPENING, len(waiting))
        for channel in [waiting.popleft() for _ in range(first)]:
            channel.open(go_on)

    def start(self, go: Go, tell: Callable[[Tick], None]) -> None:
        """Set all timers; the reactor does the rest and is stopped at the end."""
        self.reactor.every(_TICK_S, lambda: tell(self.tick()))
        self.reactor.every(_SYNC_S, self._stamps.sync)
        self._beat()
        self.reactor.at(go.stop_ns, self.finish)
        self.reactor.idle = self._pack
        self._plan.start(go)

    def send(self, channel: Channel, turn: Turn, then: Callable[[Exchange], None]) -> None:
        """Put a turn on the wire; `then` is called at its end unless the load is over."""
        self.turns.append(turn)

        def done(exchange: Exchange) -> None:
            self.finished += 1
            self._to_pack.append(exchange)
            if "timeout" not in exchange.error:
                self.alive_ns = exchange.end_ns
            if not self.stopped:
                then(exchange)

        channel.ask(turn.exchange, done)

    def finish(self) -> None:
        """End the load: what is in flight is cancelled."""
        if not self.stopped:
            self.stopped = True
            self._plan.end()
            for channel in self._channels:
                channel.abort("cancelled")
            self.reactor.stop()

    @property
    def ran_out_ns(self) -> Nanos:
        """When a lane found no further prompt; 0: never."""
        return self._plan.ran_out_ns

    def tick(self) -> Tick:
        """How far it is."""
        alive = max([self.alive_ns, *(channel.token_ns for channel in self._channels)])
        return Tick(sum(len(turn.exchange.stamps) for turn in self.turns), self.finished, alive)

    def _pack(self, there_is_time: bool) -> None:  # noqa: FBT001 - the reactor's callback
        """Make what has ended small: when there is time, or when too much has piled up."""
        if self._to_pack and (there_is_time or len(self._to_pack) > _UNPACKED):
            self._to_pack.popleft().pack()

    def _check(self) -> None:
        for channel in self._channels:
            channel.check()

    def _beat(self) -> None:
        """How late a timer of 5 ms is: the lag of a client whose kernel does not stamp."""
        step = int(_BEAT_S * 1e9)
        due = self.reactor.clock() + step

        def beat() -> None:
            self.beats.append(self.reactor.clock() - due)
            self._beat()

        self.reactor.at(due, beat)


def failed(exchange: Exchange) -> bool:
    """True if the server did not answer as it should."""
    return bool(exchange.error) or exchange.head is None or exchange.head.status != 200


class _Closed:
    """Streams that send their next request when their last one has ended."""

    def __init__(self, driver: Driver, lanes: tuple[Lane, ...]) -> None:
        self._driver = driver
        self._lanes = lanes
        self._working = len(lanes)
        self.ran_out_ns: Nanos = 0
        self._channels = [driver.channel() for _ in lanes]

    def start(self, go: Go) -> None:
        for lane, channel in zip(self._lanes, self._channels, strict=True):
            asks = ((ask, place) for session in lane.sessions for place, ask in enumerate(session.turns))
            stream = _Stream(self, lane.stream, channel, asks)
            self._driver.reactor.at(go.start_ns + lane.offset_ns, stream.begin)

    def end(self) -> None:
        """Nothing waits in a closed loop."""

    def send(self, channel: Channel, turn: Turn, then: Callable[[Exchange], None]) -> None:
        self._driver.send(channel, turn, then)

    def at(self, when: Nanos, call: Callable[[], None]) -> None:
        self._driver.reactor.at(when, lambda: None if self._driver.stopped else call())

    def now(self) -> Nanos:
        return self._driver.reactor.clock()

    def ran_out(self) -> None:
        """A lane has no further prompt; with the last one the load ends."""
        self.ran_out_ns = self.ran_out_ns or self.now()
        self._working -= 1
        if not self._working:
            self._driver.finish()


class _Stream:
    """One lane under way."""

    def __init__(self, loop: _Closed, number: int, channel: Channel, asks: Iterator[tuple[Ask, int]]) -> None:
        self._loop = loop
        self._number = number
        self._channel = channel
        self._asks = asks
        self._coming = next(asks, None)

    def begin(self) -> None:
        self._next(self._loop.now())

    def _next(self, due: Nanos) -> None:
        if self._coming is None:
            self._loop.ran_out()
            return
        ask, _ = self._coming
        exchange = self._channel.exchange(ask.request)
        turn = Turn(exchange, ask.index, self._number, due, ask.prompt_tokens, ask.output_tokens)
        self._coming = next(self._asks, None)
        self._loop.send(self._channel, turn, self._ended)

    def _ended(self, exchange: Exchange) -> None:
        pause = _PAUSE_NS if failed(exchange) else 0
        if self._coming is not None and self._coming[1]:
            pause = max(pause, self._coming[0].think_ns)
        due = exchange.end_ns + pause
        if pause:
            self._loop.at(due, lambda: self._next(due))
        else:
            self._next(due)


class _Open:
    """Sessions that arrive by a schedule, whatever the server does."""

    def __init__(self, driver: Driver, job: Job) -> None:
        self._driver = driver
        self._job = job
        self._coming = deque(job.arrivals)
        self._waiting: deque[tuple[Session, int, Nanos]] = deque()
        self._free = [driver.channel() for _ in range(job.connections)]
        self._opening = 0
        self._busy = 0
        self._thinking = 0
        self._start_ns: Nanos = 0
        self._drain = False
        self.ran_out_ns: Nanos = 0

    def start(self, go: Go) -> None:
        self._start_ns, self._drain = go.start_ns, go.drain
        self._arrive()

    def _arrive(self) -> None:
        """Send everything that is due, then wait for the next."""
        clock, coming = self._driver.reactor.clock, self._coming
        while coming and not self._driver.stopped:
            due = self._start_ns + coming[0].due_ns
            if due > clock():
                self._driver.reactor.at(due, self._arrive)
                return
            self._dispatch(coming.popleft(), 0, due)
        self._end_if_done()

    def _dispatch(self, session: Session, place: int, due: Nanos) -> None:
        bound = self._job.most_in_flight
        if bound and self._busy >= bound:
            if self._job.drop:
                self._drop(session, place, due, f"{self._busy} requests were in flight")
            else:
                self._waiting.append((session, place, due))
            return
        self._ask(self._take_channel(), session, place, due)

    def _ask_waiting(self) -> None:
        session, place, due = self._waiting.popleft()
        waited_ms = (self._driver.reactor.clock() - due) / NANOS_PER_MS
        self._ask(self._take_channel(), session, place, due, f"{WAITED}{waited_ms:.1f} ms")

    def _take_channel(self) -> Channel:
        """A free channel with an open connection, if there is one; and one more on the way if they run low."""
        free = self._free
        bound, connections = self._job.most_in_flight, len(free) + self._opening + self._busy
        if len(free) + self._opening < _SPARE and (not bound or connections < bound):
            self._open_spare()
        for place in range(len(free) - 1, -1, -1):
            if free[place].ready:
                return free.pop(place)
        return free.pop() if free else self._driver.channel()

    def _open_spare(self) -> None:
        self._opening += 1

        def opened() -> None:
            self._opening -= 1
            self._free.append(channel)

        channel = self._driver.channel()
        channel.open(opened)

    def _ask(self, channel: Channel, session: Session, place: int, due: Nanos, note: str = "") -> None:
        ask = session.turns[place]
        exchange = channel.exchange(ask.request)
        exchange.detail = note
        self._busy += 1

        def ended(exchange: Exchange) -> None:
            self._busy -= 1
            self._free.append(channel)
            self._follow(session, place + 1, exchange)
            if self._waiting:
                self._ask_waiting()
            self._end_if_done()

        turn = Turn(exchange, ask.index, 0, due, ask.prompt_tokens, ask.output_tokens)
        self._driver.send(channel, turn, ended)

    def _follow(self, session: Session, place: int, exchange: Exchange) -> None:
        """The next turn of a session after its think time. A session whose turn failed is over."""
        if place >= len(session.turns) or failed(exchange):
            return
        due = exchange.end_ns + session.turns[place].think_ns
        self._thinking += 1

        def go_on() -> None:
            self._thinking -= 1
            if not self._driver.stopped:
                self._dispatch(session, place, due)

        self._driver.reactor.at(due, go_on)

    def end(self) -> None:
        """What still waits was due and is never sent."""
        for session, place, due in self._waiting:
            self._drop(session, place, due, "the load ended before it could be sent")

    def _drop(self, session: Session, place: int, due: Nanos, why: str) -> None:
        """A request that is never sent is a record all the same."""
        ask = session.turns[place]
        exchange = Exchange(b"", 0)
        exchange.sent_ns = due
        exchange.close(due, "dropped", why)
        self._driver.turns.append(Turn(exchange, ask.index, 0, due, ask.prompt_tokens, ask.output_tokens))

    def _end_if_done(self) -> None:
        idle = not (self._coming or self._waiting or self._busy or self._thinking)
        if self._drain and idle:
            self._driver.finish()
