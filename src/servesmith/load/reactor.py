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
_MOST_EVENTS = 128
"""Reads in a row before timers get their turn: about 1 ms of work."""
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


class Reactor:
    """Calls handlers of ready file descriptors, and timers at their time, until it is stopped."""

    def __init__(self, clock: Clock = time.monotonic_ns) -> None:
        self.clock = clock
        self._poll = _new_poll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[Nanos, int, Callable[[], None]]] = []
        self._order = count()
        self._stopped = False

    def watch(self, fd: int, handler: Handler, events: int = READ) -> None:
        """Call `handler(events)` whenever `fd` is ready; a second call changes handler and events."""
        if fd in self._handlers:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; nothing if it is not watched."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

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
        poll, handlers = self._poll.poll, self._handlers
        while not self._stopped:
            wait = self._run_timers()
            for fd, events in poll(wait, _MOST_EVENTS):
                handler = handlers.get(fd)
                if handler is not None:
                    handler(events)

    def close(self) -> None:
        """Give the poll's own descriptor back."""
        self._poll.close()

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
