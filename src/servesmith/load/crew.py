"""The parent's side of a load: it starts workers, gives them their times, listens, and gathers what they measured."""

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, BinaryIO, cast

from servesmith.errors import InputError, MachineError, Problem
from servesmith.load.job import Go, Job, Message, Part, Ready, Report, Stop, Tick, encode, messages
from servesmith.units import Seconds

_COMMAND = (sys.executable, "-P", "-m", "servesmith.load.worker")
_READY_S: Seconds = 60.0
_SAID = 2_000
TOKENS_PER_WORKER = 50_000
"""Chunks a second up to which one process keeps its own lag under the gap between tokens (docs/measuring.md)."""


def choose_workers(asked: int, chunks_per_s: float) -> int:
    """How many processes: what was asked, else enough for the expected rate. Raises InputError beyond the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked > cores:
        raise InputError(
            Problem(
                f"{asked} workers were asked for, but this process may use {cores} cores.",
                f"Set it to {cores} or less; 0 chooses. Two workers on one core are late for each other.",
                field="load.workers",
            )
        )
    return asked or max(1, min(cores, -(-int(chunks_per_s) // TOKENS_PER_WORKER)))


class Crew:
    """Worker processes of one load. Leaving the context ends them, however the load went."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self._heard: queue.Queue[tuple[int, Message | None]] = queue.Queue()

    def __enter__(self) -> "Crew":
        for number, job in enumerate(self._jobs):
            log = tempfile.TemporaryFile()
            process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            self._logs.append(log)
            self._processes.append(process)
            threading.Thread(target=self._listen, args=(number, process), daemon=True).start()
            self._say(number, job)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            with suppress(OSError):
                cast(BinaryIO, process.stdin).close()
            if error is not None:
                process.kill()
            process.wait()
        for log in self._logs:
            log.close()

    def wait_until_ready(self) -> None:
        """Return when every worker has opened its connections. Raises MachineError if one ends before."""
        for _ in self._jobs:
            number, message = self.hear(_READY_S)
            if not isinstance(message, Ready):
                raise self._gone(number)

    def go(self, go: Go) -> None:
        """Give all workers the times of the load."""
        for number in range(len(self._jobs)):
            self._say(number, go)

    def stop(self) -> None:
        """Have all workers end now; their reports still come."""
        for number in range(len(self._jobs)):
            self._say(number, Stop())

    def hear(self, timeout: Seconds) -> tuple[int, Ready | Tick | Part | Report]:
        """The next message of any worker. Raises TimeoutError, or MachineError if a worker has died."""
        try:
            number, message = self._heard.get(timeout=timeout)
        except queue.Empty as error:
            raise TimeoutError from error
        if not isinstance(message, Ready | Tick | Part | Report):
            raise self._gone(number)
        return number, message

    def _say(self, number: int, message: Message) -> None:
        """Tell a worker; that it is gone shows when it is listened to."""
        stdin = cast(BinaryIO, self._processes[number].stdin)
        with suppress(BrokenPipeError):
            stdin.write(encode(message))
            stdin.flush()

    def _listen(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        """Runs in a thread of its own until the worker's last message."""
        reported = False
        for message in messages(cast(BinaryIO, process.stdout)):
            self._heard.put((number, message))
            reported = isinstance(message, Report)
        if not reported:
            self._heard.put((number, None))

    def _gone(self, number: int) -> MachineError:
        process, log = self._processes[number], self._logs[number]
        process.kill()
        process.wait()
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - _SAID))
        said = log.read().decode("utf-8", "replace").strip()
        return MachineError(
            f"A measuring process ended with code {process.returncode} in the middle of its load.",
            f"What it said: {said or 'nothing'}",
        )
