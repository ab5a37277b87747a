"""The two `bench serve` families whose files are flat: vLLM with its descendants, and SGLang.

Formats: https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py (and the older
`benchmarks/benchmark_serving.py`, which InferenceX still uses), and
https://github.com/sgl-project/sglang/blob/main/python/sglang/bench_serving.py. What they measure was read there.
"""

import re

from servesmith.interop.fields import Fields, Place, error_rate, ratio, take
from servesmith.interop.nouns import Definition, Foreign, Shape

VLLM_FORMAT = "https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py"
SGLANG_FORMAT = "https://github.com/sgl-project/sglang/blob/main/python/sglang/bench_serving.py"

_WHOLE = "The whole run counts, its ramp-up and its drain too; ours counts what arrived inside the window."
_LOOP = "It is stamped when the client's event loop gets to it, so a busy client reads too high."
_STATISTICS = (("mean", "mean"), ("p50", "median"), ("p95", "p95"), ("p99", "p99"))

VLLM_DEFINITIONS = {
    "ttft": Definition(
        "first chunk with any choices - start of the request",
        f"A role chunk counts as the first token: far too low where the server sends one early. {_LOOP}",
    ),
    "tpot": Definition(
        "(end-to-end - TTFT) / (tokens - 1), mean of requests",
        "Too high by the time from a role chunk to the first token / (tokens - 1).",
    ),
    "itl": Definition(
        "gap between chunks with choices, pooled over requests",
        "The gap after a role chunk is one of them; chunks that one read brought have gaps near 0.",
    ),
    "e2e": Definition("last chunk with choices - start of the request", "Ours ends with the response."),
    "output_tokens_per_s": Definition("output tokens of requests that ended well / whole run", _WHOLE),
    "total_tokens_per_s": Definition("prompt and output tokens of requests that ended well / whole run", _WHOLE),
    "requests_per_s": Definition("requests that ended well / whole run", _WHOLE),
    "error_rate": Definition("failed / all requests of the run", "The whole run counts, ours the window."),
    "draft_acceptance": Definition("accepted / drafted tokens by the server's counters, in per cent"),
}
SGLANG_DEFINITIONS = {
    **VLLM_DEFINITIONS,
    "ttft": Definition(
        "first chunk with content or reasoning - start of the request",
        f"Setting up the connection is in it, one for each request. {_LOOP}",
    ),
    "tpot": Definition(
        "(end-to-end - TTFT) / (tokens - 1), mean of requests",
        "End-to-end ends with [DONE]; tokens are the length asked for where the server sends no usage.",
    ),
    "itl": Definition(
        "gap between chunks, pooled; divided by the chunk's tokens where the acceptance length is known",
        "Under speculation it is a time per token, ours a gap between chunks.",
    ),
    "e2e": Definition("last line, [DONE] included - start of the request", "The connection's set-up is in it."),
}
_REASONS = {
    "spec_decode_acceptance_length": "tokens a step of the engine; tokens_per_chunk is of the stream",
    "accept_length": "tokens a step of the engine; tokens_per_chunk is of the stream",
    "max_output_tokens_per_s": "a peak over one second",
    "total_output_tokens_retokenized": "a second count of the same tokens",
}


def _latencies(names: dict[str, str]) -> list[Place]:
    """Where the flat formats keep them: `median_ttft_ms`. End-to-end in our table is in seconds."""
    return [
        Place(f"{stem}_{ours}_{'s' if stem == 'e2e' else 'ms'}", f"{theirs}_{name}_ms", 1e-3 if stem == "e2e" else 1.0)
        for stem, name in names.items()
        for ours, theirs in _STATISTICS
        if not (stem in ("itl", "e2e") and ours == "mean")
    ]


VLLM_PLACES = (
    Place("output_tokens_per_s", "output_throughput"),
    Place("total_tokens_per_s", "total_token_throughput"),
    Place("requests_per_s", "request_throughput"),
    *_latencies({"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}),
    Place("draft_acceptance", "spec_decode_acceptance_rate", 0.01),
)
_SGLANG_PLACES = (
    Place("output_tokens_per_s", "output_throughput"),
    Place("total_tokens_per_s", "total_throughput"),
    Place("requests_per_s", "request_throughput"),
    *_latencies({"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}),
)


def is_vllm(fields: Fields) -> bool:
    """A result of `vllm bench serve` or of its older script."""
    return fields.has("request_throughput") and fields.has("model_id") and fields.has("completed")


def is_sglang(fields: Fields) -> bool:
    """One line of SGLang's bench_serving."""
    return fields.has("request_throughput") and (
        fields.has("total_output_tokens_retokenized") or fields.has("mean_e2e_latency_ms")
    )


def read_vllm(fields: Fields, file: str) -> list[Foreign]:
    """`vllm bench serve --save-result`."""
    return [read_flat(fields, file, "vLLM bench serve", VLLM_FORMAT)]


def read_flat(
    fields: Fields, file: str, tool: str, source: str, definitions: dict[str, Definition] = VLLM_DEFINITIONS
) -> Foreign:
    """A file of vLLM's shape, whoever wrote it."""
    numbers = take(fields, VLLM_PLACES, definitions)
    numbers |= error_rate(fields, "completed", "failed", definitions)
    return Foreign(
        file=file,
        tool=tool,
        format=source,
        model=fields.text("model_id"),
        date=_moment(fields.text("date")),
        shape=_shape(fields),
        numbers=numbers,
        unmapped=fields.unmapped(_REASONS),
    )


def read_sglang(fields: Fields, file: str) -> list[Foreign]:
    """One line of SGLang's JSONL. It tells no date, and the model only in what the server said of itself."""
    numbers = take(fields, _SGLANG_PLACES, SGLANG_DEFINITIONS)
    found = Foreign(
        file=file,
        tool="SGLang bench_serving",
        format=SGLANG_FORMAT,
        model=fields.text("server_info/model_path"),
        shape=_shape(fields),
        numbers=numbers,
        unmapped=fields.unmapped(_REASONS),
    )
    return [found]


def _shape(fields: Fields) -> Shape:
    completed = fields.number("completed")
    fields.text("request_rate")  # "inf" and "trace" say that no rate was set
    return Shape(
        streams=fields.number("max_concurrency"),
        rate=fields.number("request_rate"),
        requests=completed,
        prompt_tokens=ratio(fields.number("total_input_tokens"), completed),
        output_tokens=ratio(fields.number("total_output_tokens"), completed),
        seconds=fields.number("duration"),
    )


def _moment(date: str) -> str:
    """vLLM's 20261201-120000 as ISO 8601; any other text as it is."""
    parts = re.fullmatch(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", date)
    return "{}-{}-{}T{}:{}:{}".format(*parts.groups()) if parts else date
