"""GuideLLM's `benchmarks.json`: one file, one benchmark for each rate or number of streams.

Format: https://github.com/vllm-project/guidellm/blob/main/src/guidellm/benchmark/schemas/generative/metrics.py: each
metric has one distribution for each status of a request; ours are of the successful ones.
"""

from datetime import UTC, datetime

import msgspec

from servesmith.interop.fields import Fields, Place, error_rate, take
from servesmith.interop.nouns import Definition, Foreign, Shape

FORMAT = "https://github.com/vllm-project/guidellm/blob/main/src/guidellm/benchmark/schemas/generative/metrics.py"

_WALL = "It is a difference of wall-clock times of the client's event loop."
_ENDED = "Tokens of requests that did not end well are left out; ours counts each token that arrived."
DEFINITIONS = {
    "ttft": Definition("first content, reasoning or tool call - start of the request", _WALL),
    "tpot": Definition(
        "inter_token_latency: (last - first token) / (tokens - 1)",
        "Its distribution is over tokens, so long answers weigh more; ours is over requests.",
    ),
    "tpot_token_mean_ms": Definition("inter_token_latency: (last - first token) / (tokens - 1), weighted by tokens"),
    "e2e": Definition("end of the stream - start of the request", _WALL),
    "output_tokens_per_s": Definition("mean rate of output tokens over the measured span", _ENDED),
    "total_tokens_per_s": Definition("mean rate of prompt and output tokens over the measured span", _ENDED),
    "requests_per_s": Definition("mean rate of requests that ended well over the measured span"),
    "tokens_per_chunk": Definition("output tokens / iterations of the stream"),
    "error_rate": Definition("errored / (successful + errored) requests"),
}
_PLACES = (
    Place("output_tokens_per_s", "metrics/output_tokens_per_second/successful/mean"),
    Place("total_tokens_per_s", "metrics/tokens_per_second/successful/mean"),
    Place("requests_per_s", "metrics/requests_per_second/successful/mean"),
    Place("ttft_mean_ms", "metrics/time_to_first_token_ms/successful/mean"),
    Place("ttft_p50_ms", "metrics/time_to_first_token_ms/successful/median"),
    Place("ttft_p95_ms", "metrics/time_to_first_token_ms/successful/percentiles/p95"),
    Place("ttft_p99_ms", "metrics/time_to_first_token_ms/successful/percentiles/p99"),
    Place("tpot_token_mean_ms", "metrics/inter_token_latency_ms/successful/mean"),
    Place("tpot_p50_ms", "metrics/inter_token_latency_ms/successful/median"),
    Place("tpot_p95_ms", "metrics/inter_token_latency_ms/successful/percentiles/p95"),
    Place("tpot_p99_ms", "metrics/inter_token_latency_ms/successful/percentiles/p99"),
    Place("e2e_p50_s", "metrics/request_latency/successful/median"),
    Place("e2e_p95_s", "metrics/request_latency/successful/percentiles/p95"),
    Place("e2e_p99_s", "metrics/request_latency/successful/percentiles/p99"),
    Place("tokens_per_chunk", "metrics/output_tokens_per_iteration/successful/mean"),
)
_REASONS = {
    "metrics/time_per_output_token_ms": "TTFT is in it: end-to-end / tokens",
    "metrics/time_to_first_output_token_ms": "passes over reasoning",
    "requests": "single requests of the tool",
}


def is_guidellm(fields: Fields) -> bool:
    """A report with at least one benchmark in it."""
    return fields.has("benchmarks/0/metrics")


def read_guidellm(fields: Fields, file: str) -> list[Foreign]:
    """One result a benchmark; what stands beside the list belongs to each."""
    found: list[Foreign] = []
    while fields.has(f"benchmarks/{len(found)}"):
        found.append(_benchmark(fields, fields.below(f"benchmarks/{len(found)}"), file))
    fields.skip("benchmarks")
    beside = fields.unmapped({"args": "settings of the tool", "metadata": "facts of the tool's machine"})
    return [msgspec.structs.replace(result, unmapped=result.unmapped | beside) for result in found]


def _benchmark(report: Fields, fields: Fields, file: str) -> Foreign:
    numbers = take(fields, _PLACES, DEFINITIONS)
    numbers |= error_rate(fields, "metrics/request_totals/successful", "metrics/request_totals/errored", DEFINITIONS)
    return Foreign(
        file=file,
        tool="GuideLLM",
        format=FORMAT,
        version=report.text("metadata/guidellm_version"),
        model=fields.text("config/backend/model") or report.text("args/model"),
        date=_moment(fields.number("start_time")),
        shape=_shape(fields),
        numbers=numbers,
        unmapped=fields.unmapped(_REASONS),
    )


def _shape(fields: Fields) -> Shape:
    streams = fields.number("config/strategy/streams")
    limit = fields.number("config/strategy/max_concurrency")
    return Shape(
        streams=limit if streams is None else streams,
        rate=fields.number("config/strategy/rate"),
        requests=fields.number("metrics/request_totals/successful"),
        prompt_tokens=fields.number("metrics/prompt_token_count/successful/mean"),
        output_tokens=fields.number("metrics/output_token_count/successful/mean"),
        seconds=fields.number("duration"),
    )


def _moment(unix: float | None) -> str:
    """Seconds since 1970 as ISO 8601; empty if they are none."""
    if unix is None or not 0 < unix < 1e11:
        return ""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="seconds")
