import json
import statistics
import time
from itertools import pairwise

import pytest
from fakeserver import Script, serving

from servesmith.load.closed import run_closed
from servesmith.load.conduct import Settings
from servesmith.load.outcome import LoadOutcome
from servesmith.measure.metrics import compute
from servesmith.measure.select import tokens_between
from servesmith.recipe.model import Load
from servesmith.workload.base import Prompt


def prompts(count: int, tokens: int = 8) -> list[Prompt]:
    return [Prompt(n, json.dumps({"stream": True, "n": n}).encode(), 16, tokens) for n in range(count)]


def load(**fields) -> Load:
    return Load(**({"streams": 4, "warmup_s": 0.2, "window_s": 0.5, "first_token_s": 5} | fields))


def run(script: Script, count: int = 400, settings: Settings = Settings(), **fields) -> tuple[LoadOutcome, list]:  # noqa: B008
    with serving(script) as server:
        outcome = run_closed(server.url, prompts(count, script.tokens), load(**fields), settings=settings)
        return outcome, server.completions


def test_streams_are_always_busy_and_each_prompt_is_sent_once():
    outcome, served = run(Script(ttft_s=0.02, gap_s=0.005))
    indexes = [record.index for record in outcome.records]
    assert len(set(indexes)) == len(indexes) == len(served)
    assert all(record.index % 4 == record.stream for record in outcome.records)
    assert {record.error for record in outcome.records} == {"", "cancelled"}
    assert sum(record.error == "cancelled" for record in outcome.records) <= 4
    assert {record.stream for record in outcome.records} == {0, 1, 2, 3}
    assert abs(outcome.window.seconds - 0.5) < 1e-6 and not outcome.hang
    by_stream = [r for r in outcome.records if r.stream == 0]
    assert all(a.end_ns <= b.due_ns <= b.sent_ns for a, b in pairwise(by_stream))


@pytest.mark.alone
def test_desynchronised_starts_spread_over_the_shorter_of_cycle_and_warm_up():
    script = Script(ttft_s=0.02, gap_s=0.002, tokens=4)
    for cycle, spread in ((0.0, 0.3), (0.15, 0.15), (9.0, 0.3)):
        outcome, _ = run(script, warmup_s=0.3, window_s=0.05, settings=Settings(cycle_s=cycle))
        first = [min(r.sent_ns for r in outcome.records if r.stream == n) for n in range(4)]
        steps = [(later - earlier) / 1e9 for earlier, later in pairwise(first)]
        assert all(abs(step - spread / 4) < 0.04 for step in steps), (cycle, steps)
        assert not any("lock-step" in doubt for doubt in outcome.doubts)


def test_starts_together_are_a_doubt():
    outcome, _ = run(Script(tokens=2), starts="together", warmup_s=0.1, window_s=0.2)
    first = [min(r.sent_ns for r in outcome.records if r.stream == n) for n in range(4)]
    assert (max(first) - min(first)) / 1e6 < 50
    assert any("lock-step" in doubt and "desynchronised" in doubt for doubt in outcome.doubts)


def test_tokens_of_requests_cut_off_by_the_end_count_in_the_window():
    outcome, _ = run(Script(ttft_s=0.05, gap_s=0.02, tokens=500, usage="continuous"))
    assert [r.error for r in outcome.records] == ["cancelled"] * 4
    assert tokens_between(outcome.records, outcome.window.start_ns, outcome.window.end_ns) > 50
    metrics = compute(outcome.records, outcome.window)
    assert 100 < metrics["output_tokens_per_s"].value <= 210


def test_prompts_that_run_out_are_a_doubt_and_never_repeated():
    outcome, served = run(Script(ttft_s=0.02, gap_s=0.01), count=14)
    assert len(served) == 14
    assert any("ran out" in doubt and "draw more" in doubt for doubt in outcome.doubts)
    assert outcome.window.end_ns <= max(record.end_ns for record in outcome.records) + 50_000_000
    assert outcome.window.seconds < 0.5


def test_prompts_that_run_out_in_the_warm_up_leave_no_window():
    outcome, _ = run(Script(ttft_s=0.0, gap_s=0.0), count=3)
    assert outcome.window.seconds == 0 and any("in the warm-up" in doubt for doubt in outcome.doubts)
    assert compute(outcome.records, outcome.window) == {}


@pytest.mark.parametrize("hang_after", [0, 3])
def test_a_server_that_never_gives_a_token_again_is_a_hang(hang_after):
    began = time.monotonic()
    script = Script(ttft_s=0.0, gap_s=0.005, hang_after=hang_after, pings=True)
    outcome, _ = run(script, first_token_s=0.5, warmup_s=0.2, window_s=30)
    assert outcome.hang and time.monotonic() - began < 5
    assert {r.error for r in outcome.records} <= {"timeout-first-token", "cancelled"}


def test_a_server_that_refuses_everything_is_no_hang_and_does_not_eat_the_prompts():
    outcome, served = run(Script(status=500), first_token_s=0.3)
    assert not outcome.hang and {r.error for r in outcome.records} <= {"http-status", "cancelled"}
    assert 4 <= len(served) <= 60
    assert compute(outcome.records, outcome.window)["error_rate"].value == 1.0


def test_nobody_there_is_records_of_class_connect():
    with serving(Script()) as server:
        url = server.url
    outcome = run_closed(url, prompts(200), load(streams=2, warmup_s=0.1, window_s=0.3))
    assert {r.error for r in outcome.records} == {"connect"} and not outcome.hang


def test_connections_closed_by_the_server_do_not_count_against_it():
    outcome, _ = run(Script(ttft_s=0.01, gap_s=0.002, requests_per_connection=2))
    assert {r.error for r in outcome.records} <= {"", "cancelled"} and len(outcome.records) > 20


def test_counters_are_read_at_both_ends_of_the_window():
    made = iter(range(100, 10_000, 100))
    script = Script(
        ttft_s=0.01,
        gap_s=0.002,
        metrics=lambda: f"# TYPE sim:generation_tokens_total counter\nsim:generation_tokens_total {next(made)}\n",
    )
    outcome, _ = run(script, settings=Settings(key="secret"))
    assert outcome.counters is not None
    before, after = outcome.counters
    assert (before.values, after.values) == ({"output_tokens": 100}, {"output_tokens": 200})
    assert before.asked_ns >= outcome.window.start_ns and after.at_ns >= outcome.window.end_ns
    assert abs((after.at_ns - before.at_ns) / 1e9 - outcome.window.seconds) < 0.2


def test_no_counters():
    outcome, served = run(Script(tokens=2), window_s=0.2, settings=Settings(counters_path=""))
    assert outcome.counters is None and served
    outcome, _ = run(Script(tokens=2, metrics=lambda: "garbage {"), window_s=0.2)
    assert outcome.counters is None


def test_progress_comes_twice_a_second():
    seen = []
    settings = Settings(on_progress=seen.append)
    run(Script(), window_s=1.1, settings=settings)
    assert len(seen) == 2
    first, second = seen
    assert 0.4 < first.elapsed_s < second.elapsed_s < 1.4 and first.remaining_s > second.remaining_s
    assert 0 < first.chunks < second.chunks and first.finished <= second.finished


def test_a_fault_in_the_progress_callback_is_not_lost():
    def fault(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Script(), window_s=1.0, settings=Settings(on_progress=fault))


def test_the_key_is_sent_and_nowhere_else():
    settings = Settings(key="secret-key")
    outcome, served = run(Script(tokens=2), window_s=0.2, settings=settings)
    assert {s.headers["authorization"] for s in served} == {"Bearer secret-key"}
    assert "secret-key" not in repr(outcome) and "secret-key" not in repr(settings)


@pytest.mark.alone
def test_throughput_and_latency_equal_the_servers_own():
    """Stated error: 5 ms for median TTFT, 1 ms for TPOT, 3 % for throughput."""
    script = Script(ttft_s=0.08, gap_s=0.01, tokens=20, usage="continuous")
    outcome, served = run(script, streams=8, warmup_s=0.6, window_s=1.5)
    metrics = compute(outcome.records, outcome.window, doubts=outcome.doubts)
    window = outcome.window
    sends = [t for s in served for t in s.sends_ns if window.start_ns <= t < window.end_ns]
    assert abs(metrics["output_tokens_per_s"].value / (len(sends) / window.seconds) - 1) < 0.03
    inside = [s for s in served if len(s.sends_ns) == 20 and window.start_ns <= s.sends_ns[0] < window.end_ns]
    assert abs(metrics["ttft_p50_ms"].value - statistics.median(s.ttft_ms for s in inside)) < 5
    assert abs(metrics["tpot_p50_ms"].value - statistics.median(s.tpot_ms(20) for s in inside)) < 1
    assert metrics["prompt_token_error"].value == 0 and metrics["error_rate"].value == 0
