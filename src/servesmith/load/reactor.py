"""One thread, one poll: sockets and timers of a load. No asyncio: its wake-ups are what clients measure by mistake."""

import heapq
import select
import selectors
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

from servesmith.load.stamps import Clock
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds

READ, WRITE = 1, 4  # select.EPOLLIN, select.EPOLLOUT
_MOST_EVENTS = 32
"""Reads in a row before timers and urgent descriptors get their turn: about 0.3 ms of work."""
_SLEEP_BELOW: Nanos = 1_100_000
"""A poll wakes to the millisecond; the rest of the way to a timer is slept, which the kernel's stamps forgive."""
_FOREVER: Seconds = 1.0

Handler = Callable[[int], None]


class _Poll(Protocol):
    def register(self, fd: int, eventmask: int, /) -> None: ...
    def modify(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class _PortablePoll:
    """The platform's best selector behind the face of epoll."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, eventmask: int, /) -> None:
        self._selector.register(fd, _selector_mask(eventmask))

    def modify(self, fd: int, eventmask: int, /) -> None:
        self._selector.modify(fd, _selector_mask(eventmask))

    def unregister(self, fd: int, /) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
        ready = self._selector.select(timeout)[:maxevents]
        masks = ((selectors.EVENT_READ, READ), (selectors.EVENT_WRITE, WRITE))
        return [(key.fd, sum(ours for theirs, ours in masks if mask & theirs)) for key, mask in ready]

    def close(self) -> None:
        self._selector.close()


def _selector_mask(eventmask: int) -> int:
    pairs = ((READ, selectors.EVENT_READ), (WRITE, selectors.EVENT_WRITE))
    return sum(theirs for ours, theirs in pairs if eventmask & ours)


def _new_poll() -> _Poll:
    return select.epoll() if sys.platform == "linux" else _PortablePoll()


def _urgent_poll() -> select.epoll | None:
    """A poll that can itself be polled; only Linux has it."""
    return select.epoll() if sys.platform == "linux" else None


class Reactor:
    """Calls handlers of ready file descriptors, and timers at their time, until it is stopped.

    Urgent descriptors stand in a poll of their own, which is asked before every small batch of the others: a client
    that is behind still reads first tokens at once, before a second token can hide the time of the first.
    """

    def __init__(self, clock: Clock = time.monotonic_ns, coalesce_s: Seconds = 0.0) -> None:
        """`coalesce_s`: rest after each batch, so that one waking serves several arrivals. Where the kernel stamps them
        it costs no exactness and saves CPU time."""
        self.clock = clock
        self._coalesce_s = coalesce_s
        self.idle: Callable[[bool], None] | None = None
        """Called after each batch with whether there is time; should take well under a millisecond."""
        self._poll = _new_poll()
        self._urgent_poll = _urgent_poll()
        self._urgent: set[int] = set()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[Nanos, int, Callable[[], None]]] = []
        self._order = count()
        self._stopped = False

    def watch(self, fd: int, handler: Handler, events: int = READ, *, urgent: bool = False) -> None:
        """Call `handler(events)` whenever `fd` is ready; a further call changes handler, events and urgency."""
        urgent = urgent and self._urgent_poll is not None
        if fd in self._handlers and urgent != (fd in self._urgent):
            self.unwatch(fd)
        poll = self._poll_of(urgent=urgent)
        if fd in self._handlers:
            poll.modify(fd, events)
        else:
            poll.register(fd, events)
        self._handlers[fd] = handler
        if urgent:
            self._urgent.add(fd)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; nothing if it is not watched."""
        if self._handlers.pop(fd, None) is not None:
            self._poll_of(urgent=fd in self._urgent).unregister(fd)
            self._urgent.discard(fd)

    def _poll_of(self, *, urgent: bool) -> _Poll:
        return self._urgent_poll if urgent and self._urgent_poll is not None else self._poll

    def at(self, when: Nanos, call: Callable[[], None]) -> None:
        """Call once at `when` (of `clock`) or as soon after as can be."""
        heapq.heappush(self._timers, (when, next(self._order), call))

    def every(self, period: Seconds, call: Callable[[], None]) -> None:
        """Call again and again, the times counted from now and not from the last call."""
        step = int(period * NANOS_PER_SECOND)
        due = self.clock() + step

        def again() -> None:
            nonlocal due
            due = max(due + step, self.clock())
            self.at(due, again)
            call()

        self.at(due, again)

    def stop(self) -> None:
        """Let `run` return after the call under way."""
        self._stopped = True

    def run(self) -> None:
        """Work until stopped."""
        self._stopped = False
        poll, rest = self._poll.poll, self._coalesce_s
        if self._urgent_poll is not None:
            self._poll.register(self._urgent_poll.fileno(), READ)
        while not self._stopped:
            wait = self._run_timers()
            if self._urgent:
                self._call(self._urgent_poll.poll(0, _MOST_EVENTS) if self._urgent_poll else [])
            ready = poll(wait, _MOST_EVENTS)
            self._call(ready)
            if self.idle:
                self.idle(len(ready) < _MOST_EVENTS)
            if rest and ready and len(ready) < _MOST_EVENTS and not self._timer_within(rest):
                time.sleep(rest)
        if self._urgent_poll is not None:
            self._poll.unregister(self._urgent_poll.fileno())

    def _call(self, ready: list[tuple[int, int]]) -> None:
        handlers = self._handlers
        for fd, events in ready:
            handler = handlers.get(fd)
            if handler is not None:
                handler(events)

    def close(self) -> None:
        """Give the polls' own descriptors back."""
        self._poll.close()
        if self._urgent_poll is not None:
            self._urgent_poll.close()

    def _timer_within(self, span: Seconds) -> bool:
        return bool(self._timers) and self._timers[0][0] - self.clock() < span * NANOS_PER_SECOND

    def _run_timers(self) -> Seconds:
        """Call what is due; how long the poll may wait for the next timer."""
        timers, clock = self._timers, self.clock
        while timers and not self._stopped:
            left = timers[0][0] - clock()
            if left <= 0:
                heapq.heappop(timers)[2]()
                continue
            if left >= _SLEEP_BELOW:
                return min(_FOREVER, left // NANOS_PER_MS / 1000)
            time.sleep(left / NANOS_PER_SECOND)
        return 0.0 if self._stopped else _FOREVER
