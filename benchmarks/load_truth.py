"""This client, and others where they are installed, against a server that knows when it sent what.

    .venv/bin/python benchmarks/load_truth.py --streams 64,512,2048 --repeats 5 --out docs/evidence/load-truth.json

The server is loadtruth's mocksse (built here with gcc from --source): one core, real-time priority where allowed, TTFT
200 ms, gap 20 ms, 200 tokens. Truth of a request: first write - the kernel's receive time of the request; (last - first
write) / 199. An error is the percentile that a client reports minus the same percentile of the truth.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.load.outcome import LoadOutcome
from servesmith.recipe.model import Load
from servesmith.workload.base import Prompt

TTFT_MS, GAP_MS, TOKENS = 200.0, 20.0, 200
CYCLE_S = (TTFT_MS + GAP_MS * (TOKENS - 1)) / 1000
QUANTILES = (0.50, 0.95, 0.99)
WORDS = "time year people way day man thing woman life child world school state family student group country hand " * 7


@dataclass(frozen=True)
class Row:
    """One run of one client."""

    client: str
    streams: int
    starts: str
    workers: int
    rate_share: float
    ttft_error_ms: list[float] = field(default_factory=list)
    tpot_error_ms: list[float] = field(default_factory=list)
    cpu_s_per_million: float = 0.0
    cpu_s_per_million_all: float = 0.0
    lag_p99_ms: float = 0.0
    said: str = ""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[2] / "shared/tools/loadtruth/mocksse.c")
    parser.add_argument("--streams", default="64,512,2048")
    parser.add_argument("--starts", default="desynchronised,together")
    parser.add_argument("--workers", type=int, default=0, help="0: as the client chooses")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cycles", type=float, default=3.0, help="length of the window in requests")
    parser.add_argument("--port", type=int, default=8199)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


@contextlib.contextmanager
def truth_server(source: Path, port: int, *more: str) -> Iterator[Path]:
    """The server under a folder of its own; yields the path of its log."""
    with tempfile.TemporaryDirectory() as folder:
        binary, log = Path(folder) / "mocksse", Path(folder) / "truth.bin"
        subprocess.run(["gcc", "-O2", "-w", "-o", binary, source], check=True)
        command = ["taskset", "-c", "0", *(["chrt", "-f", "10"] if os.geteuid() == 0 else []), str(binary)]
        settings = ["--port", str(port), "--ttft-ms", str(TTFT_MS), "--gap-ms", str(GAP_MS), "--log", str(log), *more]
        server = subprocess.Popen([*command, *settings], stderr=subprocess.DEVNULL)
        try:
            control(port, "/health", tries=50)
            yield log
        finally:
            server.kill()
            server.wait()


def control(port: int, path: str, tries: int = 1) -> bytes:
    for attempt in range(tries):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).read()
        except OSError:
            if attempt == tries - 1:
                raise
            time.sleep(0.05)
    raise AssertionError


def read_truth(log: Path) -> tuple[np.ndarray, np.ndarray]:
    """TTFT and TPOT in ms of every whole request."""
    data, place = log.read_bytes(), 0
    ttft: list[float] = []
    tpot: list[float] = []
    while place < len(data):
        _, _, received, _, tokens, sends = struct.unpack_from("<6Q", data, place)
        place += 48
        sent = np.frombuffer(data, dtype="<u8", count=3 * sends, offset=place).reshape(-1, 3)[:, 1]
        place += 24 * sends
        ttft.append((int(sent[0]) - received) / 1e6)
        tpot.append((int(sent[-1]) - int(sent[0])) / (tokens - 1) / 1e6)
    return np.array(ttft), np.array(tpot)


def errors(reported: np.ndarray, truth: np.ndarray) -> list[float]:
    return [round(float(np.quantile(reported, q) - np.quantile(truth, q)), 4) for q in QUANTILES]


def drive(port: int, streams: int, starts: str, given: argparse.Namespace) -> LoadOutcome:
    body = json.dumps(
        {"model": "mock", "messages": [{"role": "user", "content": WORDS}], "max_tokens": TOKENS, "stream": True,
         "stream_options": {"include_usage": True}}
    ).encode()  # fmt: skip
    count = streams * (int(given.cycles) + 4)
    prompts = [Prompt(index, body, 128, TOKENS) for index in range(count)]
    load = Load(
        streams=streams, starts=starts, warmup_s=CYCLE_S, window_s=given.cycles * CYCLE_S, workers=given.workers
    )
    settings = Settings(cycle_s=CYCLE_S, counters_path="", chunks_per_s=streams * TOKENS / CYCLE_S)
    return run_closed(f"http://127.0.0.1:{port}", prompts, load, settings=settings)


def ours(port: int, log: Path, streams: int, starts: str, given: argparse.Namespace) -> Row:
    control(port, "/ctl/reset")
    parent = time.process_time()
    outcome = drive(port, streams, starts, given)
    parent = time.process_time() - parent
    control(port, "/ctl/dump")
    whole = [record for record in outcome.records if record.ok]
    ttft = np.array([(r.first_token_ns or 0) - r.sent_ns for r in whole]) / 1e6
    tpot = np.array([((r.last_token_ns or 0) - (r.first_token_ns or 0)) / (r.output_tokens - 1) for r in whole]) / 1e6
    true_ttft, true_tpot = read_truth(log)
    if abs(len(whole) - len(true_ttft)) > 0.02 * streams:  # the last chunk of a few is under way as the load ends
        raise SystemExit(f"{len(whole)} whole requests here, {len(true_ttft)} at the server")
    millions = sum(len(r.chunk_ns) for r in outcome.records) / 1e6
    window = outcome.window
    stamps = np.concatenate([np.array(r.chunk_ns)[np.array(r.chunk_kinds) == 1] for r in outcome.records])
    inside = int(((stamps >= window.start_ns) & (stamps < window.end_ns)).sum())
    return Row(
        client="servesmith",
        streams=streams,
        starts=starts,
        workers=outcome.workers,
        rate_share=round(inside / window.seconds / (streams * TOKENS / CYCLE_S), 4),
        ttft_error_ms=errors(ttft, true_ttft),
        tpot_error_ms=errors(tpot, true_tpot),
        cpu_s_per_million=round(outcome.hot_cpu_s / millions, 2),
        cpu_s_per_million_all=round((outcome.all_cpu_s + parent) / millions, 2),
        lag_p99_ms=round(outcome.lag.p99_ms, 2),
        said=outcome.client_too_slow or "; ".join(outcome.doubts),
    )


def median_row(rows: list[Row]) -> Row:
    """Each number's median over the runs of one cell."""
    first = rows[0]
    middle = {
        name: round(statistics.median(getattr(row, name) for row in rows), 4)
        for name in ("rate_share", "cpu_s_per_million", "cpu_s_per_million_all", "lag_p99_ms")
    }
    for name in ("ttft_error_ms", "tpot_error_ms"):
        columns = zip(*(getattr(row, name) for row in rows), strict=True)
        middle[name] = [round(statistics.median(column), 4) for column in columns]
    return Row(first.client, first.streams, first.starts, first.workers, said=first.said, **middle)


def show(row: Row) -> None:
    ttft = " / ".join(f"{error:.3f}" for error in row.ttft_error_ms)
    tpot = " / ".join(f"{error:.4f}" for error in row.tpot_error_ms)
    sys.stdout.write(
        f"{row.client:<12}{row.streams:>6} {row.starts:<15}{row.workers:>2}  {row.rate_share:>8.2%}  {ttft:<24} "
        f"{tpot:<26}{row.cpu_s_per_million:>7.1f} {row.cpu_s_per_million_all:>7.1f}  {row.lag_p99_ms:>7.2f}  "
        f"{row.said[:70]}\n"
    )
    sys.stdout.flush()


def main() -> int:
    given = options()
    sys.stdout.write(
        f"{'client':<12}streams {'starts':<15}w  of rate  {'TTFT error p50/p95/p99':<24} {'TPOT error':<26}"
        "CPU-s/1M in all  lag p99\n"
    )
    rows: list[Row] = []
    with truth_server(given.source, given.port) as log:
        for streams in map(int, given.streams.split(",")):
            for starts in given.starts.split(","):
                runs = [ours(given.port, log, streams, starts, given) for _ in range(given.repeats)]
                rows += runs
                show(median_row(runs))
    if given.out:
        machine = {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
        }
        given.out.write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
