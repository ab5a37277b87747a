"""InferenceX: the raw result of its client, and the row that it makes of one for its dashboard.

Formats: https://github.com/SemiAnalysisAI/InferenceX/blob/main/utils/bench_serving/benchmark_serving.py (a descendant
of vLLM's older script) and https://github.com/SemiAnalysisAI/InferenceX/blob/main/utils/process_result.py.
"""

from servesmith.interop.bench import VLLM_DEFINITIONS, read_flat
from servesmith.interop.fields import Fields, Place, make, take
from servesmith.interop.nouns import Definition, Foreign, Number, Shape

RAW_FORMAT = "https://github.com/SemiAnalysisAI/InferenceX/blob/main/utils/bench_serving/benchmark_serving.py"
ROW_FORMAT = "https://github.com/SemiAnalysisAI/InferenceX/blob/main/utils/process_result.py"

_STATISTICS = (("mean", "mean"), ("p50", "median"), ("p95", "p95"), ("p99", "p99"))
_MS = 1000.0
_PLACES = (
    *(Place(f"{stem}_{ours}_ms", f"{theirs}_{stem}", _MS) for stem in ("ttft", "tpot") for ours, theirs in _STATISTICS),
    *(Place(f"itl_{ours}_ms", f"{theirs}_itl", _MS) for ours, theirs in _STATISTICS[1:]),
    *(Place(f"e2e_{ours}_s", f"{theirs}_e2el") for ours, theirs in _STATISTICS[1:]),
)
_RATES = (("output_tokens_per_s", "output_tput_per_gpu"), ("total_tokens_per_s", "tput_per_gpu"))
_DEGREES = ("tp", "pp", "pcp_size")
_FROM_GPUS = "The file tells it per GPU; it was multiplied by tp * pp * pcp_size, which leaves data parallelism out."
DEFINITIONS = {
    **VLLM_DEFINITIONS,
    "e2e": Definition("last chunk with choices - start inside the client's semaphore", "Ours ends with the response."),
}
_INTERACTIVITY = "1000 / TPOT in ms"
_REASONS = {f"{name}_intvty": _INTERACTIVITY for name in ("mean", "median", "std", "p90", "p99", "p99.9")}


def is_raw(fields: Fields) -> bool:
    """The client's own file: vLLM's older shape with the clock times that its power readings need."""
    return fields.has("request_throughput") and fields.has("benchmark_start_time_unix")


def is_row(fields: Fields) -> bool:
    """One row of `agg_*.json`."""
    return fields.has("tput_per_gpu") and fields.has("output_tput_per_gpu")


def read_raw(fields: Fields, file: str) -> list[Foreign]:
    """A file of the client."""
    return [read_flat(fields, file, "InferenceX client", RAW_FORMAT, DEFINITIONS)]


def read_row(fields: Fields, file: str) -> list[Foreign]:
    """One row. `isl` and `osl` are upper ends of a range, so they stay unmapped."""
    numbers = take(fields, _PLACES, DEFINITIONS) | _rates(fields)
    found = Foreign(
        file=file,
        tool="InferenceX row",
        format=ROW_FORMAT,
        model=fields.text("model"),
        shape=Shape(streams=fields.number("conc")),
        numbers=numbers,
        unmapped=fields.unmapped(
            {**_REASONS, "isl": "upper end of the range of lengths", "osl": "upper end of the range of lengths"}
        ),
    )
    return [found]


def _rates(fields: Fields) -> dict[str, Number]:
    """Totals of one node. With several nodes each rate has a denominator of its own, so they stay unmapped."""
    if fields.has("prefill_tp") or fields.text("is_multinode").lower() == "true" or fields.is_true("is_multinode"):
        return {}
    degrees = [fields.number(name) for name in _DEGREES if fields.has(name)]
    if not degrees or None in degrees:
        return {}
    gpus = 1.0
    for degree in degrees:
        gpus *= degree or 0
    names = " * ".join(name for name in _DEGREES if fields.has(name))
    numbers: dict[str, Number] = {}
    for key, field in _RATES:
        value = fields.number(field)
        if value is not None:
            numbers[key] = make(key, value * gpus, f"{field} * {names}", DEFINITIONS, _FROM_GPUS)
    return numbers
