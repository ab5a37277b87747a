import pytest
from recorded import MS, record, steady, window

from servesmith.measure.frame import frame_of
from servesmith.measure.goodput import REQUEST_LIMITS, goodput
from servesmith.measure.metrics import compute
from servesmith.measure.terms import Terms, terms_of
from servesmith.recipe.model import Goal, Recipe


def judged(records, limits, span=(0, 1000)):
    return goodput(frame_of(records), window(*span), limits)


def test_a_request_must_meet_every_limit():
    quick, slow_start, slow_tokens = record(0, 50, 10, 5), record(0, 300, 10, 5), record(0, 50, 80, 5)
    found = judged([quick, slow_start, slow_tokens], {"ttft_ms": 200, "tpot_ms": 50})
    assert (found.met, found.judged, found.requests_per_s) == (1, 3, 1.0)
    assert judged([quick, slow_start, slow_tokens], {"ttft_ms": 200}).met == 2
    assert judged([quick], {}) is None


def test_the_limit_itself_is_met():
    assert judged([record(0, 200, 50, 5)], {"ttft_ms": 200, "tpot_ms": 50, "e2e_s": 0.4}).met == 1


def test_queueing_at_the_client_counts_from_due():
    waited = record(100, 150, 10, 5, due_ns=0)
    assert judged([waited], {"ttft_ms": 100}).met == 1
    assert judged([waited], {"ttft_due_ms": 100}).met == 0
    assert judged([waited], {"e2e_due_s": 0.1}).met == 0


def test_failed_and_dropped_requests_met_nothing():
    dropped = record(50, 50, 0, 1, error="dropped", chunk_ns=(), chunk_tokens=(), chunk_kinds=())
    found = judged([record(0, 50, 10, 5), record(0, 50, 10, 5, error="cut"), dropped], {"ttft_ms": 200})
    assert (found.met, found.judged) == (1, 3)


def test_a_request_is_lost_when_it_breaks_the_limit_and_only_then():
    """Sent at 0, due to show a token by 200 ms; it takes 900."""
    late = record(0, 900, 10, 5)
    assert judged([late], {"ttft_ms": 200}, (0, 500)).judged == 1
    assert judged([late], {"ttft_ms": 200}, (500, 1000)) is None


def test_what_the_end_of_the_load_cut_off_is_judged_by_what_was_seen():
    silent = record(0, 0, 0, 1, error="cancelled", end_ns=400 * MS, chunk_ns=(), chunk_tokens=(), chunk_kinds=())
    assert judged([silent], {"ttft_ms": 200}).met == 0
    assert judged([silent], {"ttft_ms": 500}) is None
    assert judged([record(0, 50, 10, 5, error="cancelled")], {"ttft_ms": 200}) is None


def test_unknown_tokens_cannot_be_judged():
    found = judged([record(0, 50, 10, 5, output_tokens=-1), record(0, 50, 10, 5)], {"tpot_ms": 50})
    assert (found.met, found.judged, found.unjudged) == (1, 1, 1)


def test_reasoning_is_no_content():
    thinking = record(0, 50, 10, 5, chunk_kinds=(0, 2, 2, 2, 1, 1, 4))
    assert judged([thinking], {"ttft_ms": 60}).met == 1
    assert judged([thinking], {"ttft_content_ms": 60}).met == 0
    assert judged([thinking], {"ttft_content_ms": 80}).met == 1


def test_terms_give_goodput_gpus_and_cost():
    terms = Terms(request_limits={"ttft_ms": 60}, gpus=2, price_per_hour=3.6)
    found = compute(steady(), window(1000, 3000), terms=terms)
    rate = found["output_tokens_per_s"].value
    assert found["goodput_fraction"].value == 1.0 and found["goodput_fraction"].interval[1] == 1.0
    assert found["goodput_requests_per_s"].value == found["requests_per_s"].value
    assert found["output_tokens_per_min_per_gpu"].value == pytest.approx(rate * 30)
    assert found["cost_per_1m_output_tokens"].value == pytest.approx(3.6 / 3600 / rate * 1e6)
    plain = compute(steady(), window(1000, 3000))
    assert not [key for key in plain if key.startswith(("goodput", "cost")) or key.endswith("per_gpu")]


def test_terms_of_a_goal():
    goal = Goal(request_limits={"tpot_ms": 50}, gpus=8, price_per_hour=2)
    recipe = Recipe(name="a", engine="vllm", model="m")
    assert terms_of(goal, recipe) == Terms(request_limits={"tpot_ms": 50}, gpus=8, price_per_hour=2)
    assert terms_of(goal, recipe.model_copy(update={"gpus": (0, 1)})).gpus == 2


def test_every_name_of_a_limit_is_judged():
    for name in REQUEST_LIMITS:
        assert judged([record(0, 50, 10, 5)], {name: 1e6}).met == 1
        assert judged([record(0, 50, 10, 5, due_ns=-MS)], {name: 1e-6}, (-2, 1000)).met == 0
