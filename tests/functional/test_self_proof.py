"""The client proves itself: a server that logs when it sent what must be measured within a stated error.

Shortened for CI: 16 streams instead of 2,048, against the project's own sim server. The long form, against a server in
C, is benchmarks/load_truth.py. Stated error here, at the median: TPOT 0.1 ms, a chunk's stamp 1 ms after it was sent,
TTFT 1 ms, or 5 ms where all streams ask at once, since the sim notes a request only when it comes to reading it.
"""

import json
import sys

import numpy as np
import pytest

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.recipe.model import Load
from servesmith.workload.base import Prompt

pytestmark = pytest.mark.alone
PORT, STREAMS, TOKENS = 20_419, 16, 40


@pytest.fixture
def measured(servesmith, tmp_path):
    """Drive a sim server with given options; whole requests here, and the server's own log of them, by first token."""

    def go(*options, starts="desynchronised"):
        log = tmp_path / "truth.jsonl"
        server = servesmith.start_module(
            "servesmith.engine.simserver", "--port", PORT, "--ttft-ms", 80, "--gap-ms", 20, "--slots", STREAMS,
            "--truth", log, *options,
        )  # fmt: skip
        try:
            servesmith.wait_for(PORT)
            usage = {"include_usage": True, "continuous_usage_stats": True}
            asked = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": TOKENS, "ignore_eos": True}
            body = {**asked, "stream": True, "stream_options": usage}
            prompts = [Prompt(n, json.dumps(body).encode(), 0, TOKENS) for n in range(STREAMS * 8)]
            load = Load(streams=STREAMS, starts=starts, warmup_s=1, window_s=2)
            outcome = run_closed(f"http://127.0.0.1:{PORT}", prompts, load, settings=Settings(cycle_s=0.9))
        finally:
            server.terminate()
            server.wait()
        records = sorted((r for r in outcome.records if r.ok), key=lambda r: r.first_token_ns)
        return outcome, records, read_truth(log, len(records))

    return go


def read_truth(log, count):
    """Per whole request: arrival, and of each token chunk how many tokens and when it was sent; by first token."""
    found = []
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        chunks = [(tokens, sent) for kind, tokens, _, sent in entry["chunks"] if tokens]
        if sum(tokens for tokens, _ in chunks) == TOKENS:
            found.append((entry["arrival_ns"], chunks))
    found.sort(key=lambda request: request[1][0][1])
    return found[:count]


@pytest.mark.parametrize(("options", "starts"), [((), "desynchronised"), ((), "together"), (("--ping",), "together")])
def test_times_equal_the_servers_own(measured, options, starts):
    outcome, records, truth = measured(*options, starts=starts)
    assert len(records) == len(truth) > 2 * STREAMS and not outcome.client_too_slow
    assert {record.stamp_source for record in records} == {"kernel" if sys.platform == "linux" else "loop"}
    ttft = np.median([r.first_token_ns - r.sent_ns for r in records]) - np.median([c[0][1] - a for a, c in truth])
    tpot = np.median([r.last_token_ns - r.first_token_ns for r in records]) - np.median(
        [c[-1][1] - c[0][1] for _, c in truth]
    )
    assert abs(ttft) < (5e6 if starts == "together" else 1e6) and abs(tpot) / (TOKENS - 1) < 0.1e6
    here = np.sort(
        np.concatenate([[s for s, k in zip(r.chunk_ns, r.chunk_kinds, strict=True) if k == 1] for r in records])
    )
    there = np.sort(np.concatenate([[sent for _, sent in chunks] for _, chunks in truth]))
    assert here.shape == there.shape and 0 < np.median(here - there) < 1e6


def test_a_speculating_servers_tokens_are_not_its_chunks(measured):
    _, records, truth = measured("--tokens-per-chunk", 4)
    assert len(records) == len(truth) > STREAMS
    for record, (_, chunks) in zip(records, truth, strict=True):
        counted = [t for t, kind in zip(record.chunk_tokens, record.chunk_kinds, strict=True) if kind == 1]
        assert counted == [tokens for tokens, _ in chunks] and sum(counted) == record.output_tokens == TOKENS
        assert record.token_source == "usage" and len(counted) == TOKENS // 4
