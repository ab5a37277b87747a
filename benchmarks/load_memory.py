"""How much memory a load takes: 20,000 requests of 50 tokens, a million chunks, from prompts to numbers and files.

    .venv/bin/python benchmarks/load_memory.py

Told is the peak resident memory of the measuring processes and of the parent, each at its own peak, added up.
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from truth import GAP_MS, PORT, SOURCE, TTFT_MS, prompts, serving

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.recipe.model import Load

TOKENS = 50
CYCLE_S = (TTFT_MS + GAP_MS * (TOKENS - 1)) / 1000


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--port", type=int, default=PORT)
    return parser.parse_args()


def main() -> int:
    given = options()
    rounds = given.requests / given.streams
    load = Load(streams=given.streams, warmup_s=CYCLE_S, window_s=CYCLE_S * (rounds - 1), workers=given.workers)
    with serving(given.source, port=given.port) as server:
        settings = Settings(cycle_s=CYCLE_S, counters_path="")
        outcome = run_closed(server.url, prompts(int(given.requests * 1.2), TOKENS), load, settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(records=outcome.records, window=outcome.window, doubts=outcome.doubts, counters=Counters())
        write_measured(Path(folder), measured)
        found = numbers(measured)
    chunks = sum(len(record.chunk_ns) for record in outcome.records)
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # of the largest child
    sys.stdout.write(
        f"{len(outcome.records)} requests, {chunks} chunks, {outcome.workers} worker(s), "
        f"{found['output_tokens_per_s'].value:.0f} tokens/s\n"
        f"peak: parent {parent:.0f} MiB, largest measuring process {worker:.0f} MiB, "
        f"in all at most {parent + outcome.workers * worker:.0f} MiB\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
