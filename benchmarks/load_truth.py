"""This client against a server that knows when it sent what.

    .venv/bin/python benchmarks/load_truth.py --streams 64,512,2048 --repeats 5 --out docs/evidence/load-truth.json

TTFT 200 ms, gap 20 ms, 200 tokens. Truth of a request: first write - the kernel's receive time of the request; (last -
first write) / 199. An error is the percentile that a client reports minus the same percentile of the truth.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from truth import GAP_MS, PORT, SOURCE, TTFT_MS, Server, errors, prompts, serving

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.load.outcome import LoadOutcome
from servesmith.recipe.model import Load

TOKENS = 200
CYCLE_S = (TTFT_MS + GAP_MS * (TOKENS - 1)) / 1000


@dataclass(frozen=True)
class Row:
    """One run of one client."""

    client: str
    streams: int
    starts: str
    workers: int
    stamps: str
    rate_share: float
    ttft_error_ms: list[float] = field(default_factory=list)
    tpot_error_ms: list[float] = field(default_factory=list)
    cpu_s_per_million: float = 0.0
    cpu_s_per_million_all: float = 0.0
    lag_p99_ms: float = 0.0
    said: str = ""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--streams", default="64,512,2048")
    parser.add_argument("--starts", default="desynchronised,together")
    parser.add_argument("--workers", type=int, default=0, help="0: as the client chooses")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cycles", type=float, default=3.0, help="length of the window in requests")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--no-kernel-stamps", action="store_true", help="as on a system whose kernel does not stamp")
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


def drive(server: Server, streams: int, starts: str, given: argparse.Namespace) -> LoadOutcome:
    asked = prompts(streams * (int(given.cycles) + 4), TOKENS)
    load = Load(
        streams=streams, starts=starts, warmup_s=CYCLE_S, window_s=given.cycles * CYCLE_S, workers=given.workers
    )
    settings = Settings(
        cycle_s=CYCLE_S,
        counters_path="",
        chunks_per_s=streams * TOKENS / CYCLE_S,
        kernel_stamps=not given.no_kernel_stamps,
    )
    return run_closed(server.url, asked, load, settings=settings)


def ours(server: Server, streams: int, starts: str, given: argparse.Namespace) -> Row:
    server.reset()
    parent = time.process_time()
    outcome = drive(server, streams, starts, given)
    parent = time.process_time() - parent
    whole = [record for record in outcome.records if record.ok]
    truth = server.truth()
    if abs(len(whole) - len(truth.ttft_ms)) > 0.1 * streams:  # the last chunk of some is under way as the load ends
        raise SystemExit(f"{len(whole)} whole requests here, {len(truth.ttft_ms)} at the server")
    ttft = np.array([(r.first_token_ns or 0) - r.sent_ns for r in whole]) / 1e6
    tpot = np.array([((r.last_token_ns or 0) - (r.first_token_ns or 0)) / (r.output_tokens - 1) for r in whole]) / 1e6
    stamps = np.concatenate([np.array(r.chunk_ns)[np.array(r.chunk_kinds) == 1] for r in outcome.records])
    window, millions = outcome.window, len(stamps) / 1e6
    inside = int(((stamps >= window.start_ns) & (stamps < window.end_ns)).sum())
    return Row(
        client="servesmith",
        streams=streams,
        starts=starts,
        workers=outcome.workers,
        stamps=whole[0].stamp_source,
        rate_share=round(inside / window.seconds / (streams * TOKENS / CYCLE_S), 4),
        ttft_error_ms=errors(ttft, truth.ttft_ms),
        tpot_error_ms=errors(tpot, truth.tpot_ms),
        cpu_s_per_million=round(outcome.hot_cpu_s / millions, 2),
        cpu_s_per_million_all=round((outcome.all_cpu_s + parent) / millions, 2),
        lag_p99_ms=round(outcome.lag.p99_ms, 2),
        said=outcome.client_too_slow or "; ".join(outcome.doubts),
    )


def median_row(rows: list[Row]) -> Row:
    """Each number's median over the runs of one cell."""
    fields = asdict(rows[0])
    for name in ("rate_share", "cpu_s_per_million", "cpu_s_per_million_all", "lag_p99_ms"):
        fields[name] = round(statistics.median(getattr(row, name) for row in rows), 4)
    for name in ("ttft_error_ms", "tpot_error_ms"):
        columns = zip(*(getattr(row, name) for row in rows), strict=True)
        fields[name] = [round(statistics.median(column), 4) for column in columns]
    return Row(**fields)


def show(row: Row) -> None:
    ttft = " / ".join(f"{error:.3f}" for error in row.ttft_error_ms)
    tpot = " / ".join(f"{error:.4f}" for error in row.tpot_error_ms)
    sys.stdout.write(
        f"{row.client:<12}{row.streams:>6} {row.starts:<15}{row.workers:>2} {row.stamps:<7}{row.rate_share:>8.2%}  "
        f"{ttft:<24} {tpot:<26}{row.cpu_s_per_million:>7.1f} {row.cpu_s_per_million_all:>7.1f} {row.lag_p99_ms:>8.2f}  "
        f"{row.said[:60]}\n"
    )
    sys.stdout.flush()


def main() -> int:
    given = options()
    sys.stdout.write(
        f"{'client':<12}streams {'starts':<15}w stamps  of rate  {'TTFT error p50/p95/p99':<24} {'TPOT error':<26}"
        "CPU-s/1M in all  lag p99\n"
    )
    rows: list[Row] = []
    with serving(given.source, port=given.port) as server:
        for streams in map(int, given.streams.split(",")):
            for starts in given.starts.split(","):
                runs = [ours(server, streams, starts, given) for _ in range(given.repeats)]
                rows += runs
                show(median_row(runs))
    if given.out:
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()}
        given.out.write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
