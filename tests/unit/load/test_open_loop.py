import json
from itertools import pairwise

from fakeserver import Script, serving

from servesmith.load.conduct import Settings
from servesmith.load.openloop import run_open
from servesmith.recipe.model import Arrivals, Load
from servesmith.workload.base import Prompt

MS = 1_000_000


def prompts(count: int, tokens: int = 8, **fields) -> list[Prompt]:
    return [Prompt(n, json.dumps({"stream": True, "n": n}).encode(), 16, tokens, **fields) for n in range(count)]


def load(arrivals: Arrivals | None = None, **fields) -> Load:
    arrivals = arrivals or Arrivals(process="constant", rate=50, drain_s=5)
    return Load(**({"warmup_s": 0.2, "window_s": 0.8, "first_token_s": 5, "arrivals": arrivals} | fields))


def test_everything_due_is_sent_at_its_time_and_answered():
    due = [n * 20 * MS for n in range(50)]
    with serving(Script(ttft_s=0.05, gap_s=0.005)) as server:
        outcome = run_open(server.url, prompts(50), due, load(workers=1), settings=Settings(cycle_s=0.1))
    records = sorted(outcome.records, key=lambda r: r.index)
    assert [r.index for r in records] == list(range(50)) and {r.error for r in records} == {""}
    assert all(r.sent_ns >= r.due_ns for r in records)
    assert all(later.due_ns - earlier.due_ns == 20 * MS for earlier, later in pairwise(records))
    assert abs(outcome.window.seconds - 0.8) < 1e-6
    assert max(r.end_ns for r in records) > outcome.window.end_ns  # the last answers came after the window


def test_a_request_beyond_the_bound_waits_and_says_so():
    arrivals = Arrivals(process="constant", rate=50, max_in_flight=2, drain_s=10)
    with serving(Script(ttft_s=0.1, gap_s=0.005)) as server:
        outcome = run_open(server.url, prompts(20), [n * 20 * MS for n in range(20)], load(arrivals, warmup_s=0))
        assert server.connections <= 4
    assert {r.error for r in outcome.records} == {""} and len(outcome.records) == 20
    waited = [r for r in outcome.records if r.detail.startswith("waited for its turn")]
    assert len(waited) > 10 and all(r.sent_ns - r.due_ns > 10 * MS for r in waited)
    flights = sorted([(r.sent_ns, 1) for r in outcome.records] + [(r.end_ns, -1) for r in outcome.records])
    most = under_way = 0
    for _, change in flights:
        under_way += change
        most = max(most, under_way)
    assert most <= 2
    assert any("waited for a place among 2 in flight" in doubt for doubt in outcome.doubts)


def test_workers_together_keep_the_bound():
    arrivals = Arrivals(process="constant", rate=50, max_in_flight=3, drain_s=10)
    with serving(Script(ttft_s=0.1, gap_s=0.005)) as server:
        due = [n * 10 * MS for n in range(16)]
        outcome = run_open(server.url, prompts(16), due, load(arrivals, warmup_s=0, workers=2))
    changes = [(r.sent_ns, 1) for r in outcome.records] + [(r.end_ns, -1) for r in outcome.records]
    under_way = [sum(change for _, change in sorted(changes)[: n + 1]) for n in range(len(changes))]
    assert outcome.workers == 2 and max(under_way) == 3


def test_a_request_beyond_the_bound_is_dropped_if_so_asked():
    arrivals = Arrivals(process="constant", rate=50, max_in_flight=1, overload="drop", drain_s=10)
    with serving(Script(ttft_s=0.1, gap_s=0.005)) as server:
        outcome = run_open(server.url, prompts(20), [n * 20 * MS for n in range(20)], load(arrivals, warmup_s=0))
        served = len(server.completions)
    dropped = [r for r in outcome.records if r.error == "dropped"]
    assert len(outcome.records) == 20 and len(dropped) + served == 20 and len(dropped) > 5
    assert all(r.sent_ns == r.due_ns and r.chunk_ns == () for r in dropped)
    assert any("never sent" in doubt for doubt in outcome.doubts)


def test_turns_of_a_session_wait_for_their_answer_and_their_user():
    turns = [
        Prompt(n, json.dumps({"stream": True, "n": n}).encode(), 16, 4, session=n // 3, turn=n % 3, think_s=0.05)
        for n in range(12)
    ]
    with serving(Script(ttft_s=0.02, gap_s=0.002, tokens=4)) as server:
        outcome = run_open(server.url, turns, [n * 30 * MS for n in range(4)], load(warmup_s=0))
    records = sorted(outcome.records, key=lambda r: r.index)
    assert [r.error for r in records] == [""] * 12
    for first in range(0, 12, 3):
        for before, after in pairwise(records[first : first + 3]):
            assert after.due_ns == before.end_ns + 50 * MS and after.sent_ns >= after.due_ns


def test_answers_that_do_not_come_in_time_are_cut_off():
    arrivals = Arrivals(process="constant", rate=10, drain_s=0.2)
    with serving(Script(ttft_s=0.01, gap_s=0.05, tokens=100)) as server:
        outcome = run_open(server.url, prompts(5, 100), [n * 50 * MS for n in range(5)], load(arrivals, window_s=0.3))
    assert [r.error for r in outcome.records] == ["cancelled"] * 5
    assert all(len(r.chunk_ns) > 3 for r in outcome.records)


def test_what_waits_when_the_load_ends_is_dropped_not_forgotten():
    arrivals = Arrivals(process="constant", rate=10, max_in_flight=1, drain_s=0.1)
    with serving(Script(hang_after=1, gap_s=0.0)) as server:
        outcome = run_open(server.url, prompts(5), [n * 10 * MS for n in range(5)], load(arrivals, window_s=0.2))
    assert sorted(r.error for r in outcome.records) == ["cancelled", *["dropped"] * 4]
    assert any("the load ended before it could be sent" in r.detail for r in outcome.records)


def test_two_workers_share_the_schedule():
    due = [n * 10 * MS for n in range(60)]
    with serving(Script(ttft_s=0.02, gap_s=0.002)) as server:
        outcome = run_open(server.url, prompts(60), due, load(workers=2))
    records = sorted(outcome.records, key=lambda r: r.index)
    assert [r.index for r in records] == list(range(60)) and outcome.workers == 2
    assert all(later.due_ns - earlier.due_ns == 10 * MS for earlier, later in pairwise(records))
