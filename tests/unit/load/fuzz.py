"""`make fuzz`: the real decoders against the slow ones, on as many cases as asked for, on all cores."""

import argparse
import os
import signal
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from fuzz_judge import judge
from fuzz_streams import case

BATCH = 500
LONGEST_S = 20
"""CPU time of one case; one that takes longer hangs."""
SHOWN = 5


def run(first: int) -> tuple[int, int, Counter, list[str]]:
    """One batch: cases, chunks compared, kinds of cases, and what went wrong."""
    chunks, kinds, wrong = 0, Counter(), []
    for seed in range(first, first + BATCH):
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            made = case(seed)
            kinds[made.kind] += 1
            chunks += judge(made)
        except Exception:
            wrong.append(f"seed {seed}\n{traceback.format_exc(limit=-3)}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return BATCH, chunks, kinds, wrong


def _hangs(*_: object) -> None:
    raise TimeoutError(f"a case that takes more than {LONGEST_S} s")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200_000)
    options.add_argument("--first", type=int, default=0, help="seed of the first case")
    options.add_argument("--workers", type=int, default=os.cpu_count())
    given = options.parse_args()
    signal.signal(signal.SIGPROF, _hangs)
    began, done, chunks, kinds, wrong = time.monotonic(), 0, 0, Counter(), []
    with ProcessPoolExecutor(given.workers) as pool:
        for cases, compared, of_kind, failures in pool.map(run, range(given.first, given.first + given.cases, BATCH)):
            done, chunks, wrong = done + cases, chunks + compared, wrong + failures
            kinds.update(of_kind)
            if done % (20 * BATCH) == 0:
                print(
                    f"{done:,} cases, {done / (time.monotonic() - began):,.0f}/s, {len(wrong)} wrong", file=sys.stderr
                )
    seconds = time.monotonic() - began
    print("\n".join(islice(wrong, SHOWN)))
    print("; ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    print(f"{done:,} cases, {chunks:,} chunks compared, {done / seconds:,.0f} cases/s, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
