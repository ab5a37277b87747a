"""A load of a million chunks is turned into numbers and files within its bounds of time and memory."""

import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from servesmith.measure.metrics import compute
from servesmith.measure.parquet import read_records, write_records
from servesmith.measure.terms import Terms

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from measure_speed import CHUNKS, REQUESTS, load

TERMS = Terms(request_limits={"ttft_ms": 300, "tpot_ms": 20}, gpus=2, price_per_hour=3)


@pytest.mark.alone
def test_a_million_chunks_in_two_seconds_of_cpu(tmp_path):
    records, window = load()
    assert len(records) == REQUESTS and sum(len(r.chunk_ns) for r in records) > REQUESTS * CHUNKS
    began = time.process_time()
    compute(records, window, terms=TERMS)
    assert time.process_time() - began < 2
    began = time.process_time()
    write_records(tmp_path / "r.parquet", records, window)
    assert read_records(tmp_path / "r.parquet") == (tuple(records), window)
    assert time.process_time() - began < 4


@pytest.mark.alone
def test_numbers_take_little_memory_beyond_the_records():
    records, window = load()
    tracemalloc.start()
    compute(records, window, terms=TERMS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120e6
