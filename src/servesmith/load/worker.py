"""The process that measures: `python -P -m servesmith.load.worker`. Job on stdin, ticks and report on stdout.

A process of its own, so that no live view, no sampling thread and no garbage of the parent stands between the kernel
and the clock; and it imports little, since every worker pays for it.
"""

import gc
import os
import resource
import signal
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from servesmith.load.decode import Reading, read
from servesmith.load.drive import Driver
from servesmith.load.job import Go, Inbox, Job, Message, Part, Ready, Report, Stop, encode, messages
from servesmith.load.reactor import Reactor
from servesmith.load.stamps import CAN_STAMP
from servesmith.units import Seconds

_NANOS_PER_US = 1_000
_PIPE_BYTES = 65_536
_PART = 200
"""Readings in one message."""
_COALESCE_S: Seconds = 0.0003


def main() -> int:
    """Serve one job. Returns the exit code: 0, or 1 if the parent went away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides how to end
    _raise_file_limit()
    job = next(messages(sys.stdin.buffer), None)
    if not isinstance(job, Job):
        return 1
    reactor = Reactor(coalesce_s=_COALESCE_S if CAN_STAMP and job.kernel_stamps else 0.0)
    driver = Driver(job, reactor)
    session = _Session(driver, reactor)
    reactor.watch(0, session.on_input)
    driver.connect(session.connected)
    reactor.run()
    go = session.go
    if go is None:
        return 1
    hot_cpu_s = session.hot_cpu_s
    lags, source = _lags(driver, go)
    for part in _parts(driver):
        _tell(part)
    _tell(Report(lags.tobytes(), source, driver.ran_out_ns, hot_cpu_s, time.process_time()))
    return 0


class _Session:
    """What the parent says, and when: at first Go, then perhaps Stop. The end of its pipe is a Stop too."""

    def __init__(self, driver: Driver, reactor: Reactor) -> None:
        self._driver = driver
        self._reactor = reactor
        self._inbox = Inbox()
        self._began_cpu = 0.0
        self.go: Go | None = None

    @property
    def hot_cpu_s(self) -> float:
        """CPU time since Go."""
        return time.process_time() - self._began_cpu

    def connected(self) -> None:
        _tell(Ready())

    def on_input(self, _: int) -> None:
        data = os.read(0, _PIPE_BYTES)
        if not data:
            self._reactor.unwatch(0)
            self._driver.finish()
            self._reactor.stop()
        for message in self._inbox.feed(data):
            if isinstance(message, Go):
                self._begin(message)
            elif isinstance(message, Stop):
                self._driver.finish()

    def _begin(self, go: Go) -> None:
        self.go = go
        gc.collect()
        gc.freeze()
        gc.disable()
        self._began_cpu = time.process_time()
        self._driver.start(go, _tell)


def _parts(driver: Driver) -> Iterator[Part]:
    """Decode turn by turn and let go of the bytes: what is decoded is a quarter of what came."""
    keep_text = driver.job.keep_text
    turns = driver.turns
    turns.reverse()
    readings: list[Reading] = []
    while turns:
        turn = turns.pop()
        if turn.exchange.sent_ns:
            readings.append(read(turn, keep_text=keep_text))
        if len(readings) == _PART:
            yield Part(readings)
            readings = []
    yield Part(readings)


def _lags(driver: Driver, go: Go) -> tuple["array[int]", str]:
    """How late the client was inside the window, in microseconds."""
    exchanges = [turn.exchange for turn in driver.turns]
    if any(exchange.stamp_source == "kernel" for exchange in exchanges):
        pairs = chain.from_iterable(zip(exchange.stamps, exchange.lates, strict=True) for exchange in exchanges)
        inside = (late // _NANOS_PER_US for stamp, late in pairs if go.opens_ns <= stamp < go.closes_ns)
        return array("i", (min(late, 2**31 - 1) for late in inside)), "kernel"
    return array("i", (min(late // _NANOS_PER_US, 2**31 - 1) for late in driver.beats)), "timer"


def _tell(message: Message) -> None:
    data = memoryview(encode(message))
    while data:
        data = data[os.write(1, data) :]


def _raise_file_limit() -> None:
    """As many connections as the system lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
