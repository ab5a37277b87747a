"""How a load's outcome is judged, and how many prompts it is given."""

import msgspec

from servesmith.errand import SPARE, LoadErrand, _quickest, judged, unusable
from servesmith.load.conduct import Lag
from servesmith.load.outcome import LoadOutcome
from servesmith.measure.metrics import compute
from servesmith.measure.records import RequestRecord, Window
from servesmith.recipe.model import Load, Workload
from servesmith.workload.base import Prompt

SECOND = 1_000_000_000
LOAD = Load(streams=2, warmup_s=1, window_s=4)


def record(sent: float, end: float, **fields) -> RequestRecord:
    stamps = (int(sent * SECOND) + 1000, int(end * SECOND) - 1000)
    made = RequestRecord(
        index=0, stream=0, due_ns=int(sent * SECOND), sent_ns=int(sent * SECOND), end_ns=int(end * SECOND),
        chunk_ns=stamps, chunk_tokens=(1.0, 1.0), chunk_kinds=(1, 1), output_tokens=2, finish="length",
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def outcome(window_s: float, records=None, **fields) -> LoadOutcome:
    window = Window(SECOND, int((1 + window_s) * SECOND))
    records = records or tuple(record(1 + n / 10, 1 + n / 10 + 0.05) for n in range(40))
    return LoadOutcome(records, window, (), Lag(0.0, 0.0, 0.0), **fields)


def judge(found: LoadOutcome, load: Load = LOAD, *, ours: bool = True):
    return judged(found, compute(found.records, found.window), load, ours=ours)


def test_a_whole_window_is_well():
    assert judge(outcome(4.0)).ending == "ok"
    assert judge(outcome(2.1)).ending == "ok"


def test_prompts_that_ran_out_before_half_of_the_window_fail_the_trial():
    for left in (0.13, 1.9, 0.0):
        found = judge(outcome(left))
        assert (found.ending, found.failure.kind, found.metrics) == ("failed", "too-few-prompts", {})
        assert f"{left:.2f} s of the window's 4 s" in found.failure.log_line
        assert "load.window_s" in found.failure.log_line


def test_a_server_that_failed_its_requests_is_told_so_though_its_prompts_ran_out_for_it():
    failed = tuple(record(1.01, 1.02, error="connect", detail="refused") for _ in range(10))
    assert judge(outcome(0.1, failed)).failure.kind == "requests-failed"


def test_prompts_are_drawn_for_a_server_much_faster_than_it_was_alone():
    prompt = Prompt(0, b"", 64, 64)
    assert LoadErrand(Workload(), LOAD)._enough(1.0, prompt) >= SPARE * 2 * 5


def test_a_server_of_somebody_else_that_went_away_is_said_to_have_stopped_answering():
    gone = (
        record(1.0, 1.5, error="cut", detail="after 99 bytes"),
        record(1.6, 1.61, error="connect", detail="refused"),
    )
    said = judge(outcome(4.0, gone), ours=False).failure.log_line
    assert said == "the server stopped answering (first cut: after 99 bytes; last connect: refused)"
    assert judge(outcome(4.0, gone)).failure.log_line == "cut: after 99 bytes"
    busy = (record(1.0, 1.5, error="http-status", detail="HTTP 429"),)
    assert judge(outcome(4.0, busy), ours=False).failure.log_line == "http-status: HTTP 429"


def test_a_slow_first_request_does_not_foretell_too_few_prompts():
    """It warmed the server; the second one tells what a request takes, also where their lengths differ."""
    cold, warm = (Prompt(0, b"", 32, 8), record(0.0, 3.0)), (Prompt(1, b"", 32, 16), record(3.0, 3.1))
    prompt, alone = _quickest([cold, warm])
    assert (prompt.index, round(alone, 6)) == (1, 0.1)
    assert _quickest([warm, cold]) == (prompt, alone)


def test_silence_to_a_request_sent_alone_is_a_hang_and_an_error_is_none():
    silent = unusable([record(0.0, 3.0, error="timeout-first-token", detail="no token for 3 s")], ours=True)
    assert (silent.failure.kind, "no token for 3 s" in silent.failure.log_line) == ("hang", True)
    assert unusable([record(0.0, 3.0, error="http-status")], ours=True).failure.kind == "requests-failed"
