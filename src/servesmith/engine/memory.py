"""The resident memory of a server's processes, sampled from a thread beside the load."""

import threading
import time
from contextlib import suppress

import psutil

from servesmith.units import Nanos

EVERY_S = 0.5
MOST_SAMPLES = 4096
"""With more, every second one is dropped and half as many are taken from there on."""


class PeakMemory:
    """Samples while its `with` block runs. Memory that processes share is counted once for each (RSS)."""

    def __init__(self, pid: int) -> None:
        self.peak_mib = 0.0
        self.samples: list[tuple[Nanos, float]] = []
        """When (the monotonic clock of the records), and MiB."""
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        if self._pid:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._pid:
            self._thread.join()

    def _watch(self) -> None:
        every = EVERY_S
        while True:
            now = self._now()
            self.peak_mib = max(self.peak_mib, now)
            self.samples.append((time.monotonic_ns(), now))
            if len(self.samples) >= MOST_SAMPLES:
                self.samples, every = self.samples[::2], 2 * every
            if self._done.wait(every):
                return

    def _now(self) -> float:
        total = 0
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    total += each.memory_info().rss
        return round(total / 2**20, 1)
