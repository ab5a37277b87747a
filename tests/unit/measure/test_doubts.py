import msgspec
import pytest
from recorded import MS, record, steady, window

from servesmith.measure.counters import Snapshot
from servesmith.measure.doubts import too_few
from servesmith.measure.metrics import compute
from servesmith.measure.select import tokens_between

SPAN = window(1000, 3000)


def doubts(records, key: str = "output_tokens_per_s", span=SPAN, counters=(), **options) -> str:
    return " | ".join(compute(records, span, *counters, **options)[key].doubts)


def test_a_clean_load_has_no_doubts_on_its_rates():
    metrics = compute(steady(), SPAN)
    assert {key: m.doubts for key, m in metrics.items() if "p95" not in key and "p99" not in key and m.doubts} == {}


@pytest.mark.parametrize(("count", "statistic", "few"), [
    (9, "p50", True), (10, "p50", False), (9, "mean", True), (10, "mean", False),
    (99, "p95", True), (100, "p95", False), (499, "p99", True), (500, "p99", False),
])  # fmt: skip
def test_samples_that_a_percentile_needs(count, statistic, few):
    assert bool(too_few(count, statistic)) == few
    assert not few or "lengthen the window" in too_few(count, statistic)[0]


def test_few_samples_are_said_where_they_matter():
    records = steady(cycles=6)
    span = window(200, 800)
    assert "p95 of only 12 samples; 100 or more" in doubts(records, "ttft_p95_ms", span)
    assert "samples" not in doubts(records, "output_tokens_per_s", span)


def test_not_steady():
    slower = [*steady(cycles=10), *(r for r in steady(gap=30) if r.sent_ns >= 2000 * MS)]
    assert "not steady" in doubts(slower) and "lengthen warm-up" in doubts(slower, "tpot_mean_ms")
    assert "not steady" not in doubts(slower, "prompt_token_error")


def test_failures_are_said_with_their_classes():
    records = [*steady(), record(1500, 1600, 10, 2, error="cut"), record(1500, 1600, 10, 2, error="http-status")]
    assert f"2 of {len(records)} requests failed (1 cut, 1 http-status)" in doubts(records, "ttft_mean_ms")
    cancelled = [*steady(), record(2900, 2950, 10, 2, error="cancelled")]
    assert "failed" not in doubts(cancelled)


def test_prompt_counts_that_are_off():
    records = [msgspec.structs.replace(r, prompt_tokens=r.prompt_tokens + r.index % 3) for r in steady()]
    assert "+1 to +2 tokens" in doubts(records, "prompt_token_error") and "tokenizer" in doubts(records, "ttft_p50_ms")
    assert "+1" not in doubts(records, "output_tokens_per_s")


def test_unknown_and_mixed_ways_of_counting():
    records = steady()
    unknown = [msgspec.structs.replace(r, token_source="none") if r.index == 40 else r for r in records]
    assert "tokens of 1 requests could not be counted" in doubts(unknown)
    mixed = [msgspec.structs.replace(r, token_source="ids") if r.index == 40 else r for r in records]
    assert "different ways (ids 1, one-per-chunk" in doubts(mixed)


def test_chunks_that_share_a_read_are_a_doubt_on_gaps_only():
    records = [
        msgspec.structs.replace(r, chunk_ns=tuple(stamp // (20 * MS) * 20 * MS + 1 for stamp in r.chunk_ns))
        for r in steady()
    ]
    assert "same read" in doubts(records, "itl_p50_ms") and "same read" not in doubts(records, "tpot_mean_ms")


def test_a_gap_between_requests_is_seen_by_littles_law():
    """Requests that seem to last longer than they keep the stream busy: times and rates cannot both be right."""
    stretched = [msgspec.structs.replace(r, sent_ns=r.sent_ns - 40 * MS * (r.index % 2)) for r in steady()]
    assert "Little" not in doubts(steady())
    wrong = [msgspec.structs.replace(r, output_tokens=r.output_tokens * 2) for r in steady()]
    assert "Little's law gives" in doubts(wrong) and doubts(stretched) == ""


def counters(records, count, start=1000, end=3000):
    return [Snapshot((t - 2) * MS, (t + 2) * MS, {"output_tokens": count(t)}) for t in (start, end)]


def test_a_server_may_count_tokens_as_they_are_made_or_with_the_end():
    records = steady(streams=4, chunks=40, cycles=12)
    as_made = counters(records, lambda t: tokens_between(records, 0, t * MS))
    at_end = counters(records, lambda t: sum(r.output_tokens for r in records if r.end_ns < t * MS))
    assert doubts(records, counters=as_made) == doubts(records, counters=at_end) == ""


def test_somebody_else_on_the_server_is_seen():
    records = steady()
    shared = counters(records, lambda t: 1.1 * tokens_between(records, 0, t * MS))
    assert "nobody else" in doubts(records, counters=shared)
    assert "nobody else" in doubts(records, "counter_output_tokens_per_s", counters=shared)


def test_doubts_of_the_load_stand_on_all_that_depends_on_time():
    metrics = compute(steady(), SPAN, doubts=["the client was late"])
    timeless = {key for key, metric in metrics.items() if "the client was late" not in metric.doubts}
    assert timeless == {
        "error_rate", "prompt_token_error", "cached_prompt_fraction", "first_token_content_fraction",
        "tokens_from_one_per_chunk_fraction", "merged_chunk_fraction", "late_requests", "dropped_requests",
        "send_late_p50_ms", "send_late_p99_ms", "send_late_max_ms", "kernel_stamped_fraction", "steady_from_s",
        "lock_step",
    }  # fmt: skip


def test_a_window_of_one_request_is_doubted():
    from servesmith.measure.doubts import find
    from servesmith.measure.frame import frame_of
    from servesmith.measure.records import Window

    halves = dict.fromkeys(
        ("output_tokens_per_s", "output_tokens_per_s_first_half", "output_tokens_per_s_second_half"), 9.0
    )
    short = find(frame_of(()), Window(0, 8_000_000_000), {**halves, "e2e_p50_s": 7.1}, None)
    assert "waves" in " | ".join(short.of("output_tokens_per_s"))
    assert "waves" not in " | ".join(short.of("ttft_p50_ms"))
    long = find(frame_of(()), Window(0, 8_000_000_000), {**halves, "e2e_p50_s": 2.0}, None)
    assert "waves" not in " | ".join(long.of("output_tokens_per_s"))


def test_a_window_in_which_hardly_a_request_ended_is_doubted_on_every_rate_and_latency():
    """Tokens arrive in it, but no request was seen whole, so it says little of the load."""
    records = [record(900, 1100, 10, 500, error="cancelled")]
    metrics = compute(records, SPAN)
    timed = [key for key in metrics if key.startswith(("output", "total", "requests", "ttft", "itl", "tokens_per"))]
    assert len(timed) > 20
    assert all("not one request ended" in doubts(records, key) for key in timed)
    one = [*records, record(1000, 1100, 10, 16)]
    assert "only one request ended" in doubts(one)
    assert "only one request ended" in doubts(one, "ttft_p50_ms")
    assert "ended inside" not in doubts([*one, record(1200, 1300, 10, 16)])


def test_a_load_that_warms_up_into_the_window_is_doubted():
    """Half of its streams start after 1.4 s. The halves of the window differ by less than 5 %."""
    records = [r for r in steady(streams=20, cycles=60) if r.sent_ns >= min(r.stream, 10) * 140 * MS]
    assert "steady" not in doubts(records, span=window(1600, 9000))
    assert "steady by MSER-5 only after 1.6 s, and the window opens after 1.2 s" in doubts(
        records, span=window(1220, 9000)
    )
    assert "steady by MSER-5 at no time" in doubts(records, span=window(200, 1900))


def test_lock_step_is_seen_in_the_records():
    together = [
        record(n * 300, n * 300 + 50 + stream % 3, 10, 16, stream=stream) for stream in range(16) for n in range(20)
    ]
    span = window(1000, 5000)
    assert "the 16 requests of a cycle start all together" in doubts(together, "ttft_p50_ms", span)
    assert "start" not in doubts(together, "output_tokens_per_s", span)
    assert "start" not in doubts(steady(streams=16), "ttft_p50_ms", SPAN)


def test_what_was_never_sent_is_no_failed_request():
    records = [*steady(), record(1500, 1500, 0, 1, error="dropped", chunk_ns=(), chunk_tokens=(), chunk_kinds=())]
    metrics = compute(records, SPAN)
    assert metrics["dropped_requests"].value == 1 and metrics["error_rate"].value == 0
    assert "failed" not in " ".join(metrics["output_tokens_per_s"].doubts)
