"""The open loop against a server that knows when it received what: is everything sent, and when?

    .venv/bin/python benchmarks/load_open.py --rate 500 --seconds 60
    .venv/bin/python benchmarks/load_open.py --trace ../shared/data/traces/azure_conv_2023_first2000.csv --seconds 120

Lateness is sent - due by the client's own clock; drift is how far the last requests lag behind the schedule beyond the
first ones; `arrived` is the kernel's receive time at the server - due, which the client cannot flatter.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from truth import GAP_MS, PORT, SOURCE, TTFT_MS, Server, prompts, serving

from servesmith.load.arrivals import schedule
from servesmith.load.conduct import Settings
from servesmith.load.openloop import run_open
from servesmith.load.outcome import LoadOutcome
from servesmith.recipe.model import Arrivals, Load


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--process", default="poisson")
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="0 with --trace: the whole of it")
    parser.add_argument("--trace", default="")
    parser.add_argument("--speedup", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def drive(server: Server, given: argparse.Namespace) -> tuple[LoadOutcome, Sequence[int], list[int]]:
    """The outcome, what was due when, and the output tokens of each request."""
    arrivals = (
        Arrivals(process="trace", trace=given.trace, speedup=given.speedup)
        if given.trace
        else Arrivals(process=given.process, rate=given.rate)
    )
    planned = schedule(arrivals, 1, given.seconds or 1e6)
    lengths = [max(1, row.output_tokens) for row in planned.trace.rows] if planned.trace else []
    lengths = lengths[: len(planned.due_ns)] or [given.tokens] * len(planned.due_ns)
    seconds = given.seconds or planned.due_ns[-1] / 1e9 + 1
    mean = sum(lengths) / len(lengths)
    cycle = (TTFT_MS + GAP_MS * mean) / 1000
    load = Load(warmup_s=0, window_s=seconds, workers=given.workers, arrivals=arrivals)
    rate = len(lengths) / seconds
    settings = Settings(cycle_s=cycle, counters_path="", chunks_per_s=rate * mean)
    outcome = run_open(server.url, prompts(len(lengths), lengths), planned.due_ns, load, settings=settings)
    return outcome, planned.due_ns, lengths


def measure(server: Server, given: argparse.Namespace) -> dict[str, object]:
    server.reset()
    outcome, due, lengths = drive(server, given)
    truth = server.truth()
    records = sorted(outcome.records, key=lambda r: r.index)
    late = np.array([r.sent_ns - r.due_ns for r in records]) / 1e6
    arrived = np.sort(truth.received_ns) - np.sort(np.array([r.due_ns for r in records]))[: len(truth.received_ns)]
    tenth = max(1, len(late) // 10)
    asked, got = sorted(lengths), sorted(int(n) for n in truth.tokens)
    return {
        "due": len(due),
        "sent": len([r for r in records if r.error != "dropped"]),
        "ok": sum(r.ok for r in records),
        "whole at the server": len(truth.tokens),
        "lengths right": asked == got and all(r.output_tokens == r.output_tokens_meant for r in records if r.ok),
        "workers": outcome.workers,
        "late p50 ms": round(float(np.quantile(late, 0.5)), 3),
        "late p99 ms": round(float(np.quantile(late, 0.99)), 3),
        "late max ms": round(float(late.max()), 3),
        "drift ms": round(float(np.median(late[-tenth:]) - np.median(late[:tenth])), 4),
        "arrived p50 ms": round(float(np.quantile(arrived, 0.5)) / 1e6, 3),
        "arrived p99 ms": round(float(np.quantile(arrived, 0.99)) / 1e6, 3),
        "said": outcome.client_too_slow or "; ".join(outcome.doubts),
    }


def main() -> int:
    given = options()
    with serving(given.source, port=given.port) as server:
        found = measure(server, given)
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write("\n".join(f"{name:>20}  {value}" for name, value in found.items()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
