"""A trial as the JSON of `vllm bench serve --save-result`, so that what reads those files reads ours.

Fields: https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py. The numbers are ours, by our
definitions, which stand in the file under `servesmith` (readers of the format pass over fields that they do not know).
What is not known is absent.
"""

from datetime import datetime

from servesmith import __version__
from servesmith.interop.bench import VLLM_PLACES
from servesmith.interop.own import MARK, Trial, asked, counts, definitions, distributions, doubts, model_of
from servesmith.measure.select import first_seen, tokens_between
from servesmith.units import Json

_NAMES = {"ttft": ("ttft", 1.0), "tpot": ("tpot", 1.0), "itl": ("itl", 1.0), "e2e": ("e2el", 1000.0)}
_STATISTICS = {"mean": "mean", "median": "p50", "std": "stddev", "p90": "p90", "p95": "p95", "p99": "p99"}


def to_vllm(trial: Trial) -> dict[str, Json]:
    """The fields of the format that the trial's evidence can fill."""
    return {**_setup(trial), **_totals(trial), **_rates(trial), **_latencies(trial), MARK: _ours(trial)}


def _setup(trial: Trial) -> dict[str, Json]:
    found: dict[str, Json] = {"backend": trial.recipe.engine, "label": trial.recipe.name, "model_id": model_of(trial)}
    if trial.began:
        found["date"] = datetime.fromisoformat(trial.began).strftime("%Y%m%d-%H%M%S")
    streams, rate = asked(trial)
    if streams:
        found["max_concurrency"] = streams
    if rate:
        found["request_rate"] = rate
    elif trial.case is not None and trial.case.load.arrivals is None:
        found["request_rate"] = "inf"
    return found


def _totals(trial: Trial) -> dict[str, Json]:
    records, window = trial.measured.records, trial.measured.window
    ended = counts(records, window)
    return {
        "duration": window.seconds,
        "num_prompts": ended.well + ended.failed,
        "completed": ended.well,
        "failed": ended.failed,
        "total_input_tokens": sum(max(record.prompt_tokens, 0) for record in first_seen(records, window)),
        "total_output_tokens": round(tokens_between(records, window.start_ns, window.end_ns)),
    }


def _rates(trial: Trial) -> dict[str, Json]:
    """Everything of the table that the format has a field for, apart from latencies."""
    return {
        place.field: trial.metrics[place.key].value / place.scale
        for place in VLLM_PLACES
        if place.key in trial.metrics and not place.field.endswith("_ms")
    }


def _latencies(trial: Trial) -> dict[str, Json]:
    return {
        f"{field}_{_NAMES[stem][0]}_ms": statistics[name] * _NAMES[stem][1]
        for stem, statistics in distributions(trial).items()
        if stem in _NAMES
        for field, name in _STATISTICS.items()
    }


def _ours(trial: Trial) -> Json:
    keys = {place.field: place.key for place in VLLM_PLACES if place.key in trial.metrics}
    return {
        "version": __version__,
        "trial": trial.name,
        "run": trial.run,
        "records_sha256": trial.digest,
        "definitions": definitions(keys),  # type: ignore[dict-item]
        "doubts": doubts(trial),  # type: ignore[dict-item]
    }
