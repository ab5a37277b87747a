"""A client that does not get its share of the machine must say so, and must not report latencies."""

import psutil
import pytest
from fakeserver import Script, serving
from starving import starving

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Lag, Settings
from servesmith.load.outcome import too_slow
from servesmith.measure.records import RequestRecord, Window
from servesmith.recipe.model import Load
from servesmith.workload.base import Prompt

MS = 1_000_000


@pytest.mark.alone
def test_a_starved_client_says_so_and_refuses():
    prompts = [Prompt(n, b'{"stream":true}', 16, 20) for n in range(400)]
    load = Load(streams=8, warmup_s=0.5, window_s=1.5, first_token_s=10)
    with serving(Script(ttft_s=0.05, gap_s=0.01, tokens=20)) as server, starving(psutil.Process()):
        outcome = run_closed(server.url, prompts, load, settings=Settings(counters_path=""))
    assert "late by" in outcome.client_too_slow and outcome.lag.p99_ms > 50
    assert any("late by" in doubt for doubt in outcome.doubts)


def record(**fields) -> RequestRecord:
    stamps = tuple(range(100 * MS, 300 * MS, 20 * MS))
    base = {"index": 0, "stream": 0, "due_ns": 0, "sent_ns": 0, "end_ns": 300 * MS, "chunk_ns": stamps}
    return RequestRecord(**(base | {"chunk_kinds": (1,) * len(stamps)} | fields))


WHOLE = Window(0, 1000 * MS)


@pytest.mark.parametrize(
    ("lag", "records", "streams", "said"),
    [
        (Lag(1, 5, 9), [record()], 1, ""),
        (Lag(1, 39, 60), [record()], 1, ""),  # two gaps late: tokens are still told apart well enough
        (Lag(1, 41, 60), [record()], 1, "late by 41 ms"),
        (Lag(1, 11, 60, "timer"), [record()], 1, "late by 11 ms"),  # without stamps half a gap is too much
        (Lag(1, 5, 9), [record(due_ns=0, sent_ns=80 * MS)], 1, "idle for 8%"),
        (Lag(1, 5, 9), [record(due_ns=0, sent_ns=40 * MS, end_ns=60 * MS)], 1, ""),
        (Lag(1, 5, 9), [record(due_ns=0, sent_ns=20 * MS)], 0, ""),
        (Lag(1, 5, 9), [record(due_ns=0, sent_ns=120 * MS)], 0, "sent its requests late by 120 ms"),
        (Lag(1, 5, 9), [record(sent_ns=120 * MS, detail="waited for its turn: 120 ms")], 0, ""),
        (Lag(1, 5, 9), [record(sent_ns=120 * MS, error="dropped")], 0, ""),
    ],
)
def test_what_is_too_slow(lag, records, streams, said):
    found = too_slow(records, WHOLE, lag, streams=streams)
    assert said in found and bool(found) == bool(said)
