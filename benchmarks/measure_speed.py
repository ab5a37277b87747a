"""CPU time and memory of turning 20,000 requests with 1,000,000 chunks into numbers, and of their file.

Run by hand: python benchmarks/measure_speed.py
"""

import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servesmith.measure.metrics import compute
from servesmith.measure.parquet import read_frame, read_records, write_records
from servesmith.measure.records import ChunkKind, RequestRecord, Window
from servesmith.measure.terms import Terms

REQUESTS, CHUNKS, STREAMS = 20_000, 50, 512
MS = 1_000_000


def load() -> tuple[list[RequestRecord], Window]:
    draw = random.Random(1)
    free = [stream * 2 * MS for stream in range(STREAMS)]
    records: list[RequestRecord] = []
    for index in range(REQUESTS):
        stream = index % STREAMS
        due, stamps = free[stream], [free[stream] + 1 * MS, free[stream] + 200 * MS]
        while len(stamps) <= CHUNKS:
            stamps.append(stamps[-1] + draw.choice((0, 19, 20, 21)) * MS)
        free[stream] = stamps[-1] + MS
        records.append(
            RequestRecord(
                index=index, stream=stream, due_ns=due, sent_ns=due + MS // 10, end_ns=stamps[-1],
                chunk_ns=tuple(stamps), chunk_tokens=(0.0, *[1.0] * CHUNKS),
                chunk_kinds=(int(ChunkKind.ROLE), *[int(ChunkKind.CONTENT)] * CHUNKS),
                prompt_tokens_meant=100, prompt_tokens=100, cached_tokens=0, output_tokens_meant=CHUNKS,
                output_tokens=CHUNKS, finish="length", token_source="usage", stamp_source="kernel",
                client_lag_ns=draw.randrange(5 * MS),
            )
        )  # fmt: skip
    return records, Window(5_000 * MS, min(free))


def timed(name: str, work: Callable[[], Any]) -> Any:
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = work()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    print(f"{name:<12} {time.process_time() - began:5.2f} CPU-s, peak memory +{grown:.0f} MiB")
    return result


def main() -> None:
    records, window = load()
    print(f"records alone: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    terms = Terms(request_limits={"ttft_ms": 300, "tpot_ms": 20}, gpus=2, price_per_hour=3)
    timed("all numbers", lambda: compute(records, window, terms=terms))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.parquet"
        timed("write", lambda: write_records(path, records, window))
        print(f"file: {path.stat().st_size / 1e6:.1f} MB")
        timed("read", lambda: read_records(path))
        timed("read columns", lambda: read_frame(path))


if __name__ == "__main__":
    main()
