"""The server's own counters: Prometheus text to one set of names for all engines. Door to prometheus_client."""

from collections.abc import Mapping

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds

_NAMES: dict[str, str] = {
    "llamacpp:prompt_tokens_cached_total": "cached_prompt_tokens",
    "llamacpp:tokens_predicted_total": "output_tokens",
    "llamacpp:spec_decode_num_draft_tokens_total": "draft_tokens",
    "llamacpp:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "llamacpp:n_decode_total": "decode_steps",
    "llamacpp:requests_processing": "requests_running",
    "llamacpp:requests_deferred": "requests_waiting",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "output_tokens",
    "vllm:prefix_cache_hits_total": "cached_prompt_tokens",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:num_requests_running": "requests_running",
    "vllm:num_requests_waiting": "requests_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage",
    "sglang:prompt_tokens_total": "prompt_tokens",
    "sglang:generation_tokens_total": "output_tokens",
    "sglang:cached_tokens_total": "cached_prompt_tokens",
    "sglang:num_retracted_requests_total": "preemptions",
    "sglang:num_running_reqs": "requests_running",
    "sglang:num_queue_reqs": "requests_waiting",
    "sglang:token_usage": "kv_cache_usage",
    "sim:prompt_tokens_total": "prompt_tokens",
    "sim:generation_tokens_total": "output_tokens",
    "sim:cached_tokens_total": "cached_prompt_tokens",
    "sim:steps_total": "decode_steps",
    "sim:requests_running": "requests_running",
    "sim:requests_waiting": "requests_waiting",
}  # fmt: skip
"""Name of an engine to our name. Totals only grow; the rest are gauges."""

_LLAMACPP_PROMPT = "llamacpp:prompt_tokens_total"
_TOTALS = frozenset(
    {"prompt_tokens", "output_tokens", "cached_prompt_tokens", "draft_tokens", "accepted_tokens", "decode_steps",
     "preemptions"}
)  # fmt: skip


class Snapshot(msgspec.Struct, frozen=True):
    """Counters of one moment between `asked_ns` and `at_ns` (clock of the records), under our names."""

    asked_ns: Nanos
    at_ns: Nanos
    values: dict[str, float]


def parse(text: str) -> dict[str, float]:
    """Every sample of a Prometheus text page by its full name, label sets summed; {} if it is no such page.

    Buckets and creation times are left out.
    """
    values: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    values[sample.name] = values.get(sample.name, 0.0) + float(sample.value)
    except ValueError:
        return {}
    return values


def common(values: Mapping[str, float]) -> dict[str, float]:
    """Engine names to ours: prompt_tokens (cached ones included), output_tokens, draft_tokens, ...

    llama.cpp leaves cached tokens out of its prompt count, so they are added here.
    """
    found = {ours: values[theirs] for theirs, ours in _NAMES.items() if theirs in values}
    if _LLAMACPP_PROMPT in values:
        found["prompt_tokens"] = values[_LLAMACPP_PROMPT] + found.get("cached_prompt_tokens", 0.0)
    return found


def difference(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Growth of every total between two snapshots; a total that shrank (a restarted server) is left out."""
    return {
        name: after.values[name] - before.values[name]
        for name in sorted(_TOTALS & before.values.keys() & after.values.keys())
        if after.values[name] >= before.values[name]
    }


def span_seconds(before: Snapshot, after: Snapshot) -> Seconds:
    """Time between two snapshots, each taken at the middle of its own request."""
    return ((after.asked_ns + after.at_ns) - (before.asked_ns + before.at_ns)) / 2 / NANOS_PER_SECOND
