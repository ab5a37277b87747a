"""What counts as a token, and when the first one came: the cases in which clients differ, against the truth.

.venv/bin/python benchmarks/load_definitions.py
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from truth import PORT, SOURCE, Server, errors, prompts, serving

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.measure.records import ChunkKind
from servesmith.recipe.model import Load

TOKENS = 100
CASES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "role chunk early": ("--role", "early"),
    "no role chunk": ("--role", "none"),
    "4 tokens a chunk": ("--tokens-per-chunk", "4"),
    "reasoning first": ("--reasoning", "40"),
    "no usage": ("--no-usage",),
    "no usage, 4 a chunk": ("--no-usage", "--tokens-per-chunk", "4"),
    "pings": ("--ping", "3"),
    "events split": ("--split",),
    "all ticks together": ("--sync",),
    "jitter of 10 ms": ("--jitter-ms", "10"),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--port", type=int, default=PORT)
    return parser.parse_args()


def measure(server: Server, streams: int) -> str:
    server.reset()
    load = Load(streams=streams, warmup_s=2.2, window_s=4.4)
    settings = Settings(cycle_s=2.2, counters_path="", count_text=lambda text: text.count(" the"))
    outcome = run_closed(server.url, prompts(streams * 5, TOKENS), load, settings=settings)
    whole = [record for record in outcome.records if record.ok]
    truth = server.truth()
    ttft = np.array([(r.first_token_ns or 0) - r.sent_ns for r in whole]) / 1e6
    tpot = np.array([((r.last_token_ns or 0) - (r.first_token_ns or 0)) / (r.output_tokens - 1) for r in whole]) / 1e6
    tokens = {r.output_tokens for r in whole}
    first = {ChunkKind(next(k for k in r.chunk_kinds if k in (1, 2, 3))).name for r in whole}
    sources = {r.token_source for r in whole}
    failed = [r for r in outcome.records if r.error not in ("", "cancelled")]
    return (
        f"{len(whole):>5} of {len(truth.ttft_ms):<5} tokens {tokens}  TTFT error {errors(ttft, truth.ttft_ms)}  "
        f"TPOT error {errors(tpot, truth.tpot_ms)}  first token: {'/'.join(first)}  counted by {'/'.join(sources)}"
        + (f"  FAILED {len(failed)}: {failed[0].error} {failed[0].detail}" if failed else "")
    )


def main() -> int:
    given = options()
    for name, more in CASES.items():
        with serving(given.source, more, given.port) as server:
            sys.stdout.write(f"{name:<20} {measure(server, given.streams)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
