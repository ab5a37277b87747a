"""AIPerf's `profile_export_aiperf.json`.

Format: https://github.com/ai-dynamo/aiperf/blob/main/src/aiperf/common/models/export_models.py: each metric is an
object with its unit and statistics. Definitions: https://github.com/ai-dynamo/aiperf/blob/main/docs/metrics-reference.md.
"""

from collections.abc import Mapping

from servesmith.interop.fields import Fields, Place, error_rate, take
from servesmith.interop.nouns import Definition, Foreign, Number, Shape
from servesmith.measure.metrics import METRICS

FORMAT = "https://github.com/ai-dynamo/aiperf/blob/main/src/aiperf/common/models/export_models.py"

_WHOLE = "The whole run counts; ours counts what arrived inside the window."
_COUNT = "Tokens are counted anew by a tokenizer unless --use-server-token-count was given."
DEFINITIONS = {
    "ttft": Definition(
        "first response with content, reasoning or a tool call - start of the request",
        "It is stamped when the client's event loop gets to it, so a busy client reads too high.",
    ),
    "tpot": Definition("inter_token_latency: (end-to-end - TTFT) / (tokens - 1), mean of requests", _COUNT),
    "itl": Definition("inter_chunk_latency: gap between chunks"),
    "e2e": Definition("last response with content - start of the request", "Ours ends with the response."),
    "output_tokens_per_s": Definition("output tokens / benchmark duration", f"{_WHOLE} {_COUNT}"),
    "total_tokens_per_s": Definition("prompt and output tokens / benchmark duration", f"{_WHOLE} {_COUNT}"),
    "requests_per_s": Definition("requests that ended well / benchmark duration", _WHOLE),
    "error_rate": Definition("failed / all requests of the run", "The whole run counts, ours the window."),
}
_IN_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_STATISTICS = (("mean", "avg"), ("p50", "p50"), ("p95", "p95"), ("p99", "p99"))
_FAMILIES = (
    ("ttft", "time_to_first_token"),
    ("tpot", "inter_token_latency"),
    ("itl", "inter_chunk_latency"),
    ("e2e", "request_latency"),
)
_RATES = (
    Place("output_tokens_per_s", "output_token_throughput/avg"),
    Place("total_tokens_per_s", "total_token_throughput/avg"),
    Place("requests_per_s", "request_throughput/avg"),
)
_REASONS: Mapping[str, str] = {
    "input_config": "settings of the tool",
    "telemetry_data": "telemetry of the GPUs",
    "time_to_second_token": "no metric here",
}


def is_aiperf(fields: Fields) -> bool:
    """The JSON summary of one AIPerf run."""
    return fields.has("request_throughput/avg") or fields.has("aiperf_version")


def read_aiperf(fields: Fields, file: str) -> list[Foreign]:
    """One run."""
    numbers = take(fields, _RATES, DEFINITIONS) | _latencies(fields)
    numbers |= error_rate(fields, "request_count/avg", "error_request_count/avg", DEFINITIONS)
    fields.skip(*(f"{stem}/unit" for stem in ("request_throughput", "output_token_throughput", "request_count")))
    found = Foreign(
        file=file,
        tool="AIPerf",
        format=FORMAT,
        version=fields.text("aiperf_version"),
        model=_model(fields),
        date=fields.text("start_time"),
        shape=_shape(fields),
        numbers=numbers,
        unmapped=fields.unmapped(_REASONS),
    )
    return [found]


def _latencies(fields: Fields) -> dict[str, Number]:
    """A family whose unit is unknown here stays unmapped as a whole."""
    numbers: dict[str, Number] = {}
    for stem, name in _FAMILIES:
        seconds = _IN_SECONDS.get(fields.text(f"{name}/unit"))
        if seconds is None:
            continue
        ours = "s" if stem == "e2e" else "ms"
        scale = seconds if ours == "s" else seconds * 1000
        places = [Place(f"{stem}_{key}_{ours}", f"{name}/{field}", scale) for key, field in _STATISTICS]
        numbers |= take(fields, [place for place in places if place.key in METRICS], DEFINITIONS)
    return numbers


def _shape(fields: Fields) -> Shape:
    load = next((at for at in ("loadgen", "load", "phases/0") if fields.has(f"input_config/{at}")), "loadgen")
    return Shape(
        streams=fields.number(f"input_config/{load}/concurrency"),
        rate=fields.number(f"input_config/{load}/request_rate"),
        requests=fields.number("request_count/avg"),
        prompt_tokens=fields.number("input_sequence_length/avg"),
        output_tokens=fields.number("output_sequence_length/avg"),
        seconds=fields.number("benchmark_duration/avg"),
    )


def _model(fields: Fields) -> str:
    """Older and newer configurations keep it in different places."""
    places = ("endpoint/model_names/0", "models/items/0/name", "models/0/name", "models/0")
    return next(filter(None, (fields.text(f"input_config/{place}") for place in places)), "")
