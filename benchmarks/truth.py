"""A server that knows when it sent what, for the benchmarks beside this file: loadtruth's mocksse, built with gcc.

It runs on core 0, with real-time priority where that is allowed, so that no client can delay it.
"""

import contextlib
import json
import os
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servesmith.workload.base import Prompt

SOURCE = Path(__file__).parents[2] / "shared/tools/loadtruth/mocksse.c"
PORT = 8199
TTFT_MS, GAP_MS = 200.0, 20.0
QUANTILES = (0.50, 0.95, 0.99)
_WORDS = "time year people way day man thing woman life child world school state family student group country hand " * 7


@dataclass(frozen=True)
class Truth:
    """What the server logged of every request that it answered whole, in order of arrival."""

    received_ns: np.ndarray
    tokens: np.ndarray
    ttft_ms: np.ndarray
    tpot_ms: np.ndarray


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Forget what was."""
        self.get("/ctl/reset")

    def truth(self) -> Truth:
        """What happened since the last reset."""
        self.get("/ctl/dump")
        return _read(self.log)

    def get(self, path: str, tries: int = 1) -> bytes:
        """One GET."""
        for attempt in range(tries):
            try:
                return urllib.request.urlopen(self.url + path, timeout=30).read()
            except OSError:
                if attempt == tries - 1:
                    raise
                time.sleep(0.05)
        raise AssertionError


@contextlib.contextmanager
def serving(source: Path = SOURCE, more: Sequence[str] = (), port: int = PORT) -> Iterator[Server]:
    """Build and start it, and end it with the block. `more` are options of mocksse."""
    if not source.exists():
        raise SystemExit(f"{source} is not there: give its path with --source")
    with tempfile.TemporaryDirectory() as folder:
        binary, log = Path(folder) / "mocksse", Path(folder) / "truth.bin"
        subprocess.run(["gcc", "-O2", "-w", "-o", binary, source], check=True)
        priority = ["chrt", "-f", "10"] if os.geteuid() == 0 else []
        options = ["--port", str(port), "--ttft-ms", str(TTFT_MS), "--gap-ms", str(GAP_MS), "--log", str(log), *more]
        command = ["taskset", "-c", "0", *priority, str(binary), *options]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            server = Server(port, log)
            server.get("/health", tries=50)
            yield server
        finally:
            process.kill()
            process.wait()


def prompts(count: int, tokens: Sequence[int] | int) -> list[Prompt]:
    """Requests of about 128 words for so many output tokens (one number, or one each)."""
    lengths = [tokens] * count if isinstance(tokens, int) else tokens
    bodies = {length: _body(length) for length in set(lengths)}
    return [Prompt(index, bodies[length], 128, length) for index, length in enumerate(lengths)]


def _body(tokens: int) -> bytes:
    asked = {"model": "mock", "messages": [{"role": "user", "content": _WORDS}], "max_tokens": tokens}
    return json.dumps({**asked, "stream": True, "stream_options": {"include_usage": True}}).encode()


def _read(log: Path) -> Truth:
    data, place = log.read_bytes(), 0
    rows: list[tuple[int, int, float, float]] = []
    while place < len(data):
        _, _, received, _, tokens, sends = struct.unpack_from("<6Q", data, place)
        place += 48
        sent = np.frombuffer(data, dtype="<u8", count=3 * sends, offset=place).reshape(-1, 3)[:, 1]
        place += 24 * sends
        span = (int(sent[-1]) - int(sent[0])) / max(1, tokens - 1)
        rows.append((received, tokens, (int(sent[0]) - received) / 1e6, span / 1e6))
    rows.sort()
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.array([])] * 4
    return Truth(*columns)


def errors(reported: np.ndarray, truth: np.ndarray) -> list[float]:
    """Reported minus true percentile: p50, p95, p99."""
    return [round(float(np.quantile(reported, q) - np.quantile(truth, q)), 4) for q in QUANTILES]
