import pytest

from servesmith.measure.counters import Snapshot, common, difference, parse, span_seconds

LLAMACPP = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 38
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total 2
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 8
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 3
"""
VLLM = """# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 20.0
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e9
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 50.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0"} 64.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} 3
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
vllm:time_to_first_token_seconds_count 4
vllm:time_to_first_token_seconds_sum 1.5
"""
SGLANG = """# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 7.5e+06
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device"} 3
sglang:cached_tokens_total{cache_source="host"} 4
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs 162
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LLAMACPP, {"prompt_tokens": 40, "cached_prompt_tokens": 2, "output_tokens": 8, "requests_running": 3}),
        (VLLM, {"prompt_tokens": 120, "output_tokens": 50, "cached_prompt_tokens": 64}),
        (SGLANG, {"output_tokens": 7.5e6, "cached_prompt_tokens": 7, "requests_running": 162}),
        ("process_cpu_seconds_total 3\n", {}),
        ("", {}),
        ("<html>nothing</html>", {}),
        ('{"error": 501}', {}),
        ("vllm:prompt_tokens_total{ 3\n", {}),
    ],
)
def test_text_of_every_engine_under_one_set_of_names(text, expected):
    assert common(parse(text)) == expected


def test_buckets_and_creation_times_are_left_out():
    assert set(parse(VLLM)) == {
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:prefix_cache_hits_total",
        "vllm:time_to_first_token_seconds_count", "vllm:time_to_first_token_seconds_sum",
    }  # fmt: skip


def test_differences_are_of_totals_in_both_that_did_not_shrink():
    before = Snapshot(0, 2_000_000_000, {"output_tokens": 5, "prompt_tokens": 9, "requests_running": 1})
    after = Snapshot(4_000_000_000, 10_000_000_000, {"output_tokens": 8, "prompt_tokens": 1, "requests_running": 4})
    assert difference(before, after) == {"output_tokens": 3}
    assert span_seconds(before, after) == 6
