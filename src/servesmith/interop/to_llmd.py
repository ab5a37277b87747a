"""A trial as an llm-d benchmark report, v0.2.

Schema: https://github.com/llm-d/llm-d-benchmark/tree/main/benchmark-report (`schema_v0_2.py`, whose present revision
0.2.1 takes what 0.2 wrote). It forbids fields that it does not know, so our definitions and doubts stand where the
tool's own configuration belongs: `scenario.load.native.config`. What is not known is absent.
"""

from servesmith import __version__
from servesmith.interop.own import Trial, asked, counts, definitions, distributions, doubts, model_of, spread
from servesmith.measure.select import ended_well, first_seen
from servesmith.recipe.secrets import mask
from servesmith.units import Json

VERSION = "0.2"

_LATENCIES = {
    "ttft": ("time_to_first_token", "ms", "ttft_mean_ms"),
    "tpot": ("time_per_output_token", "ms/token", "tpot_mean_ms"),
    "e2e": ("request_latency", "s", "e2e_p50_s"),
}
"""Our gap between chunks is no time per token where a chunk has several, so inter_token_latency is left out then."""
_GAP = ("inter_token_latency", "ms/token", "itl_p50_ms")
_RATES = {
    "output_tokens_per_s": ("output_token_rate", "tokens/s"),
    "total_tokens_per_s": ("total_token_rate", "tokens/s"),
    "requests_per_s": ("request_rate", "queries/s"),
}
_ONE_TOKEN = 1.005
"""Tokens a chunk up to which a gap between chunks is told as a gap between tokens."""


def to_llmd(trial: Trial) -> dict[str, Json]:
    """The report as plain data."""
    return {
        "version": VERSION,
        "run": _run(trial),
        "scenario": _scenario(trial),
        "results": {
            "request_performance": {
                "aggregate": {"requests": _requests(trial), "latency": _latency(trial), "throughput": _rates(trial)}
            }
        },
    }


def _run(trial: Trial) -> Json:
    time: dict[str, Json] = {"duration": f"PT{trial.measured.window.seconds:g}S"}
    if trial.began:
        time["start"] = trial.began
    if trial.ended:
        time["end"] = trial.ended
    run: dict[str, Json] = {
        "uid": trial.digest[:32],
        "time": time,
        "description": f"servesmith trial {trial.name} of {trial.recipe.name}; the duration is that of its window",
    }
    return {**run, "eid": trial.run} if trial.run else run


def _scenario(trial: Trial) -> Json:
    scenario: dict[str, Json] = {}
    if load := _load(trial):
        scenario["load"] = load
    if trial.engine_version or trial.recipe.image:
        scenario["stack"] = [_engine(trial)]
    return scenario


def _engine(trial: Trial) -> Json:
    """A `generic` component: an `inference_engine` must name its accelerator, which a recipe does not."""
    recipe = trial.recipe
    return {
        "metadata": {"label": recipe.name, "cfg_id": recipe.digest()},
        "standardized": {
            "kind": "generic",
            "tool": recipe.engine,
            "tool_version": recipe.image or trial.engine_version,
            "model": {"name": model_of(trial)},
        },
        "native": {"args": dict(recipe.flags), "envars": dict(mask(recipe.env))},  # type: ignore[dict-item]
    }


def _load(trial: Trial) -> dict[str, Json]:
    """Absent where the length of the prompts is not known, which the schema requires."""
    lengths = [record.prompt_tokens_meant for record in trial.measured.records if record.prompt_tokens_meant > 0]
    if not lengths:
        return {}
    outputs = [record.output_tokens_meant for record in trial.measured.records if record.output_tokens_meant > 0]
    standardized: dict[str, Json] = {
        "tool": "servesmith",
        "tool_version": __version__,
        "source": _source(trial),
        "input_seq_len": _length(lengths),
    }
    if outputs:
        standardized["output_seq_len"] = _length(outputs)
    streams, rate = asked(trial)
    if streams:
        standardized["concurrency"] = streams
    if rate:
        standardized["rate_qps"] = rate
    return {"metadata": {}, "standardized": standardized, "native": {"config": _native(trial)}}


def _source(trial: Trial) -> str:
    if trial.case is None:
        return "unknown"
    return "sampled" if trial.case.workload.dataset else "random"


def _length(lengths: list[int]) -> Json:
    low, high = min(lengths), max(lengths)
    return {
        "distribution": "fixed" if low == high else "other",
        "value": sum(lengths) / len(lengths),
        "min": low,
        "max": high,
    }


def _native(trial: Trial) -> Json:
    fields = {_LATENCIES[stem][0]: _LATENCIES[stem][2] for stem in _LATENCIES}
    fields |= {_GAP[0]: _GAP[2]} if _gaps_are_of_tokens(trial) else {}
    fields |= {name: key for key, (name, _) in _RATES.items()}
    told = {field: key for field, key in fields.items() if key in trial.metrics}
    config: dict[str, Json] = {
        "records_sha256": trial.digest,
        "definitions": definitions(told),  # type: ignore[dict-item]
        "doubts": doubts(trial),  # type: ignore[dict-item]
    }
    if trial.case is not None:
        config["workload"] = trial.case.workload.model_dump(mode="json")
        config["load"] = trial.case.load.model_dump(mode="json")
    return config


def _requests(trial: Trial) -> Json:
    records, window = trial.measured.records, trial.measured.window
    found = counts(records, window)
    requests: dict[str, Json] = {
        "total": found.well + found.failed + found.open,
        "failures": found.failed,
        "incomplete": found.open,
    }
    prompts = [float(record.prompt_tokens) for record in first_seen(records, window) if record.prompt_tokens >= 0]
    outputs = [float(record.output_tokens) for record in ended_well(records, window) if record.output_tokens >= 0]
    for name, sample in (("input_length", prompts), ("output_length", outputs)):
        if sample:
            requests[name] = {"units": "count", **spread(sample)}
    return requests


def _latency(trial: Trial) -> Json:
    found = distributions(trial)
    places = _LATENCIES | ({"itl": _GAP} if _gaps_are_of_tokens(trial) else {})
    return {name: {"units": unit, **found[stem]} for stem, (name, unit, _) in places.items() if stem in found}


def _gaps_are_of_tokens(trial: Trial) -> bool:
    metric = trial.metrics.get("tokens_per_chunk")
    return metric is not None and 0 < metric.value <= _ONE_TOKEN


def _rates(trial: Trial) -> Json:
    return {
        name: {"units": unit, "mean": trial.metrics[key].value}
        for key, (name, unit) in _RATES.items()
        if key in trial.metrics
    }
