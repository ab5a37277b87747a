import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import MS, record, steady, window

from servesmith.measure.counters import Snapshot
from servesmith.measure.metrics import METRICS, compute, tokens_between
from servesmith.measure.records import RequestRecord


def values(records, span, *counters) -> dict[str, float]:
    return {key: metric.value for key, metric in compute(records, span, *counters).items()}


def test_definitions_on_one_request_by_hand():
    """Sent at 0, role chunk at 1 ms, 5 chunks of 2 tokens at 100, 120, ... 180 ms."""
    found = values([record(0, 100, 20, 5, per_chunk=2)], window(0, 200))
    assert found == pytest.approx(
        {
            "output_tokens_per_s": 50,
            "total_tokens_per_s": 100,
            "requests_per_s": 5,
            "output_tokens_per_min": 3000,
            "total_tokens_per_min": 6000,
            **{f"{stem}_{name}_ms": 100 for stem in ("ttft", "ttft_content") for name in ("mean", "p50", "p95", "p99")},
            **{f"ttft_due_{name}_ms": 100 for name in ("p50", "p95", "p99")},
            **{f"first_event_{name}_ms": 1 for name in ("p50", "p95", "p99")},
            **{f"tpot_{name}_ms": 80 / 9 for name in ("mean", "p50", "p95", "p99", "token_mean")},
            "interactivity_tokens_per_s": 112.5,
            "merged_chunk_fraction": 0,
            **{f"itl_{name}_ms": 20 for name in ("p50", "p95", "p99")},
            **{f"{stem}_{name}_s": 0.18 for stem in ("e2e", "e2e_due") for name in ("p50", "p95", "p99")},
            **{f"normalised_latency_{name}_ms": 18 for name in ("mean", "p50", "p95")},
            "phase_queue_mean_ms": 0,
            "phase_prefill_mean_ms": 100,
            "phase_decode_mean_ms": 80,
            **{f"send_late_{name}_ms": 0 for name in ("p50", "p99", "max")},
            "late_requests": 0,
            "dropped_requests": 0,
            "kernel_stamped_fraction": 0,
            "first_token_content_fraction": 1,
            "tokens_from_one_per_chunk_fraction": 1,
            "tokens_per_chunk": 2,
            "error_rate": 0,
            "little_output_tokens_per_s": 0.9 * 10 / 0.18,
            "cached_prompt_fraction": 0.4,
            "prompt_token_error": 0,
            "output_tokens_per_s_first_half": 0,
            "output_tokens_per_s_second_half": 100,
        }
    )


def test_which_requests_count():
    early = record(0, 90, 10, 4)  # first token before the window, ends inside
    whole = record(100, 140, 10, 4)
    late = record(180, 195, 10, 4)  # first token inside, ends after
    cut_by_us = record(110, 150, 10, 4, error="cancelled", end_ns=230 * MS, output_tokens=-1)
    failed = record(105, 110, 10, 2, error="cut")
    found = values([early, whole, late, cut_by_us, failed], window(100, 200))
    assert found["ttft_mean_ms"] == pytest.approx((40 + 15 + 40) / 3)
    assert found["tpot_mean_ms"] == pytest.approx(10)
    assert found["requests_per_s"] == pytest.approx(2 / 0.1)
    assert found["e2e_p50_s"] == pytest.approx((0.12 + 0.07) / 2)
    assert found["error_rate"] == pytest.approx(1 / 3)
    tokens = 3 + 4 + 1 + 4 + 2
    assert found["output_tokens_per_s"] == pytest.approx(tokens / 0.1)


def test_token_weighted_and_request_weighted_tpot_differ():
    found = values([record(0, 10, 10, 2), record(0, 10, 1, 91)], window(0, 200))
    assert found["tpot_mean_ms"] == pytest.approx(5.5)
    assert found["tpot_token_mean_ms"] == pytest.approx(100 / 91)


def test_in_steady_state_all_ways_to_the_throughput_agree():
    records = steady()
    rate = 4 * 16 / 0.2
    before, after = (
        Snapshot(t * MS, t * MS, {"output_tokens": tokens_between(records, 0, t * MS)}) for t in (1000, 3000)
    )
    metrics = compute(records, window(1000, 3000), before, after)
    for key in ("output_tokens_per_s", "little_output_tokens_per_s", "counter_output_tokens_per_s"):
        assert metrics[key].value == pytest.approx(rate, rel=0.01)
        assert metrics[key].doubts == ()


def test_what_cannot_be_computed_is_absent():
    assert compute([], window(0, 0)) == {}
    assert set(values([], window(0, 100))) == {
        "output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "output_tokens_per_s_first_half",
        "output_tokens_per_s_second_half", "output_tokens_per_min", "total_tokens_per_min",
    }  # fmt: skip
    bare = record(0, 10, 1, 3, prompt_tokens=-1, cached_tokens=-1, output_tokens=-1, token_source="none")
    assert not {"cached_prompt_fraction", "prompt_token_error", "tpot_mean_ms"} & set(values([bare], window(0, 100)))


def test_counters_give_rate_and_acceptance():
    before = Snapshot(0, 10 * MS, {"output_tokens": 100, "draft_tokens": 10, "accepted_tokens": 2})
    after = Snapshot(2000 * MS, 2010 * MS, {"output_tokens": 300, "draft_tokens": 50, "accepted_tokens": 32})
    found = values([], window(0, 2000), before, after)
    assert (found["counter_output_tokens_per_s"], found["draft_acceptance"]) == (pytest.approx(100), 0.75)


def test_the_table_is_the_order_and_the_source_of_units():
    metrics = compute(steady(), window(1000, 3000))
    assert list(metrics) == [key for key in METRICS if key in metrics]
    for key, metric in metrics.items():
        kind = METRICS[key]
        assert (metric.unit, metric.better) == (kind.unit, kind.better) and kind.formula and kind.source
        assert not key.endswith(("_ms", "_s")) or kind.unit in ("ms", "s", "tokens/s", "1/s")


REQUESTS = st.builds(
    record,
    st.integers(0, 1000),
    st.integers(1001, 1500),
    st.integers(0, 50),
    st.integers(1, 20),
    per_chunk=st.integers(1, 5),
    error=st.sampled_from(["", "cut", "cancelled"]),
)


@given(st.lists(REQUESTS, max_size=6), st.tuples(*[st.integers(0, 2500)] * 3).map(sorted))
def test_tokens_of_neighbouring_windows_add_up(records: list[RequestRecord], edges):
    a, b, c = (edge * MS for edge in edges)
    assert tokens_between(records, a, b) + tokens_between(records, b, c) == tokens_between(records, a, c)


@given(st.lists(REQUESTS, max_size=6), st.integers(0, 2000), st.integers(2, 1000))
def test_halves_and_whole_agree_and_nothing_is_out_of_range(records, start, length):
    found = values(records, window(start, start + length))
    halves = (found["output_tokens_per_s_first_half"] + found["output_tokens_per_s_second_half"]) / 2
    assert halves == pytest.approx(found["output_tokens_per_s"])
    assert all(value >= 0 for value in found.values())
    assert 0 <= found.get("error_rate", 0) <= 1
    for stem, unit in (("ttft", "ms"), ("tpot", "ms"), ("itl", "ms"), ("e2e", "s")):
        if f"{stem}_p50_{unit}" in found:
            assert found[f"{stem}_p50_{unit}"] <= found[f"{stem}_p95_{unit}"] <= found[f"{stem}_p99_{unit}"]


@given(st.lists(REQUESTS, max_size=6), st.integers(0, 10_000))
def test_the_clocks_zero_does_not_matter(records, shift):
    import msgspec

    moved = [
        msgspec.structs.replace(
            r,
            due_ns=r.due_ns + shift * MS,
            sent_ns=r.sent_ns + shift * MS,
            end_ns=r.end_ns + shift * MS,
            chunk_ns=tuple(stamp + shift * MS for stamp in r.chunk_ns),
        )
        for r in records
    ]
    assert values(records, window(500, 1500)) == values(moved, window(500 + shift, 1500 + shift))
