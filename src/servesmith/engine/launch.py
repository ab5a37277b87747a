"""Start an engine, know that it is the one that answers, and end all of it whatever happens.

`serve` puts a guard process (guard.py) between servesmith and the engine. The guard ends the whole tree on success,
failure, Ctrl-C and kill -9 of servesmith; see there.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from servesmith.engine import failures, guard, ports, ready
from servesmith.engine.base import Command, Failure
from servesmith.engine.ports import find_free_port
from servesmith.errors import MachineError
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds

__all__ = ["Server", "StartFailed", "StartLimits", "find_free_port", "serve"]

Classify = Callable[[Iterable[str], int | None], Failure]
"""Log lines and exit code (None: it did not exit) to a failure; an adapter's `failure`."""


@dataclass(frozen=True)
class StartLimits:
    """How long each step of a start and of an end may take."""

    ready_s: Seconds = 600.0
    """From exec until a health endpoint of the engine answers 200; past it: `timeout`."""
    first_token_s: Seconds = 60.0
    """From there until a real token; past it: `hang`."""
    grace_s: Seconds = 10.0
    """Between SIGTERM and SIGKILL."""
    poll_s: Seconds = 0.02


class StartFailed(Exception):
    """The engine did not come up. `trial` turns the failure into data."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.log_line}")
        self.failure = failure


@dataclass(frozen=True)
class Server:
    """A server that has served a token, and that is surely the one we started."""

    url: str
    port: int
    pid: int
    """Of the engine's first process; it leads its session and process group."""
    started: Nanos
    """CLOCK_MONOTONIC just before exec."""
    healthy: Nanos
    """When its health endpoint was first seen to answer 200."""
    ready_seconds: Seconds
    """From exec to the first served token."""
    poll: Callable[[], int | None] = field(repr=False)
    """Exit code of the engine's first process (minus the number of a signal), None while it runs."""


@contextmanager
def serve(
    command: Command,
    *,
    port: int,
    log_path: Path,
    limits: StartLimits | None = None,
    classify: Classify = failures.classify,
    headers: Mapping[str, str] | None = None,
) -> Generator[Server, None, None]:
    """Run `command` as a server on a port of loopback, both its streams whole in `log_path`, for the `with` block.

    `headers` go with every request that tests readiness (a bearer key). Raises MachineError before the start if the
    port is taken, StartFailed if no token came, MachineError if something of the tree survives SIGKILL.
    """
    ports.refuse_taken(port)
    limits = limits or StartLimits()
    with log_path.open("wb") as log:
        started = time.monotonic_ns()
        engine = _Guarded(command, log.fileno(), limits.grace_s)
    try:
        start = _Start(engine, port, started, log_path, limits, classify)
        healthy = start.wait_until_ready(headers or {})
        yield Server(
            url=start.url,
            port=port,
            pid=engine.pid,
            started=started,
            healthy=healthy,
            ready_seconds=(time.monotonic_ns() - started) / NANOS_PER_SECOND,
            poll=engine.poll,
        )
    finally:
        engine.end()


class _Guarded:
    """The guard process and, through it, the engine. Holding its standard input open keeps the engine alive."""

    def __init__(self, command: Command, log: int, grace: Seconds) -> None:
        self._grace = grace
        self._said = b""
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(grace), *command.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **command.env},
            start_new_session=True,  # a Ctrl-C of the terminal goes to servesmith alone
            bufsize=0,
        )
        if self.process.stdout is None or self.process.stdin is None:
            raise RuntimeError("pipes were asked for")
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        first = self._stdout.readline().split()
        self.pid = int(first[1]) if first else 0
        os.set_blocking(self._stdout.fileno(), False)

    def poll(self) -> int | None:
        """Exit code of the engine, or of a guard that died before it could tell; None while both run."""
        if not self._stdout.closed:
            self._said += self._stdout.read(64) or b""
        for line in self._said.splitlines():
            if line.startswith(b"exit "):
                return int(line[5:])
        return self.process.poll()

    def pids(self) -> set[int]:
        """Every process of the tree below the guard."""
        with suppress(psutil.NoSuchProcess):
            return {child.pid for child in psutil.Process(self.process.pid).children(recursive=True)}
        return set()

    def end(self) -> None:
        """End the whole tree and wait until it is gone."""
        self._stdin.close()
        try:
            self.process.wait(self._grace + 30)
        except subprocess.TimeoutExpired:
            raise MachineError(
                f"Processes {sorted(self.pids())} of the engine survive SIGKILL.",
                "They wait inside the kernel, most often in a GPU driver; look at dmesg.",
            ) from None
        finally:
            if self.process.returncode and self.pid:  # the guard was killed, so it could not do its work
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
        self.poll()
        self._stdout.close()


@dataclass(frozen=True)
class _Start:
    """One start under way."""

    engine: _Guarded
    port: int
    started: Nanos
    log_path: Path
    limits: StartLimits
    classify: Classify

    @property
    def url(self) -> str:
        return f"http://{ports.LOOPBACK}:{self.port}"

    def wait_until_ready(self, headers: Mapping[str, str]) -> Nanos:
        """Return once our own engine has served a token, with when it was healthy; raises StartFailed."""
        with ready.open_client(self.url, headers) as client:
            self._wait_for_health(client)
            healthy = time.monotonic_ns()
            probe = ready.first_token(client, self.limits.first_token_s)
        if probe.kind == "cut":
            self._wait_for_exit()
        self._fail_if_dead()
        if probe.kind == "hang":
            seen = self._classified(None)
            unexplained = seen.kind == "timeout"
            raise StartFailed(Failure("hang", f"{probe.detail}; {seen.log_line}") if unexplained else seen)
        if probe.kind != "token":
            raise StartFailed(Failure("requests-failed", probe.detail))
        if not self._is_ours():
            self._wait_for_exit()
            self._fail_if_dead()
            raise StartFailed(Failure("wrong-server", f"nobody listens on port {self.port} any more"))
        return healthy

    def _wait_for_health(self, client: ready.Client) -> None:
        deadline = self.started / NANOS_PER_SECOND + self.limits.ready_s
        known = False
        while True:
            self._fail_if_dead()
            status = ready.health(client)
            known = known or (status is not None and self._is_ours())
            if known and status == ready.OK:
                return
            if time.monotonic() > deadline:
                raise StartFailed(self._classified(None))
            time.sleep(self.limits.poll_s)

    def _is_ours(self) -> bool:
        """True if our own processes listen on the port, False if nobody does; raises StartFailed for a stranger."""
        ours = self.engine.pids()
        holders = ports.listeners(self.port)
        if holders <= ours | self.engine.pids():  # asked before and after: workers come and go
            return bool(holders)
        who = ports.describe(holders)
        raise StartFailed(Failure("wrong-server", f"port {self.port} is served by {who}, not by the engine"))

    def _fail_if_dead(self) -> None:
        code = self.engine.poll()
        if code is not None:
            raise StartFailed(self._classified(code))

    def _wait_for_exit(self, limit: Seconds = 2.0) -> None:
        """A cut connection is mostly the first sign of a death; give it time to be seen."""
        deadline = time.monotonic() + limit
        while self.engine.poll() is None and time.monotonic() < deadline:
            time.sleep(self.limits.poll_s)

    def _classified(self, code: int | None) -> Failure:
        with self.log_path.open(encoding="utf-8", errors="replace") as log:
            return self.classify(log, code)
