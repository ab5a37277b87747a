"""One measuring trial of ours, ready to be told in a format of others; and such a file, read again."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from servesmith.errors import EvidenceError, InputError, Problem
from servesmith.interop.bench import VLLM_FORMAT, VLLM_PLACES, read_flat
from servesmith.interop.fields import Fields
from servesmith.interop.nouns import Definition, Foreign
from servesmith.measure.evidence import RECORDS, Measured, numbers, read_measured
from servesmith.measure.metrics import METRICS, samples
from servesmith.measure.records import Metric, RequestRecord, Window
from servesmith.recipe.files import read_case
from servesmith.recipe.model import Case, Recipe

MARK = "servesmith"
"""Field of an exported file under which the definitions stand."""
_RECIPE = "recipe.yaml"
_FACTS = "facts.json"
_QUANTILES = {"p1": 0.01, "p5": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95,
              "p99": 0.99, "p99p9": 0.999}  # fmt: skip


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial's folder tells."""

    name: str
    """Of its folder."""
    run: str
    """Name of the run's folder; empty: the trial stands alone."""
    recipe: Recipe
    case: Case | None
    """The run's: workload and load. None: not known."""
    measured: Measured
    metrics: dict[str, Metric]
    digest: str
    """SHA-256 of its raw records: the same evidence, the same export."""
    engine_version: str = ""
    began: str = ""
    """ISO 8601 with offset; empty: not known."""
    ended: str = ""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of the window, by how they ended."""

    well: int
    failed: int
    open: int
    """Under way in the window and not ended in it."""


class _Facts(msgspec.Struct, frozen=True):
    """The one fact that an export tells; engine/base.py has them all."""

    version: str = ""


def trial_folder(path: Path) -> Path:
    """The measuring trial that a path names: its own folder, or the only one of a run or of a folder of runs.

    Raises InputError.
    """
    if (path / RECORDS).is_file():
        return path
    places = (f"trials/*/{RECORDS}", f"*/trials/*/{RECORDS}")
    found = sorted(file.parent for place in places for file in path.glob(place))
    if len(found) == 1:
        return found[0]
    if not found:
        message, remedy = "holds no measured trial.", f"Give a run, or a trial's folder with {RECORDS} in it."
    else:
        message = f"holds {len(found)} measured trials, and an export is of one."
        names = ", ".join(str(folder) for folder in found[:4]) + (", ..." if len(found) > 4 else "")
        remedy = f"Name one: {names}"
    raise InputError(Problem(message, remedy, file=str(path)))


def read_trial(folder: Path, *, began: str = "", ended: str = "") -> Trial:
    """Everything of a trial's folder, and its run's case where it lies in a run.

    Raises EvidenceError for raw files that cannot be read, InputError for a broken recipe.
    """
    measured = read_measured(folder)
    run = folder.resolve().parent.parent
    in_run = folder.resolve().parent.name == "trials" and (run / _RECIPE).is_file()
    return Trial(
        name=folder.resolve().name,
        run=run.name if in_run else "",
        recipe=read_case(folder / _RECIPE).recipe,
        case=read_case(run / _RECIPE) if in_run else None,
        measured=measured,
        metrics=numbers(measured),
        digest=hashlib.sha256((folder / RECORDS).read_bytes()).hexdigest(),
        engine_version=_version(folder / _FACTS),
        began=began,
        ended=ended,
    )


def model_of(trial: Trial) -> str:
    """What the server was asked for."""
    return trial.recipe.served_name or trial.recipe.model


def asked(trial: Trial) -> tuple[int, float]:
    """Streams of a closed loop or most in flight of an open one, and the one rate of an open loop; 0: none, or not
    known. Ramps, steps and traces have no one rate."""
    if trial.case is None:
        return 0, 0.0
    load = trial.case.load
    if load.arrivals is None:
        return load.streams, 0.0
    steady = load.arrivals.process in ("poisson", "gamma", "constant")
    return load.arrivals.max_in_flight, load.arrivals.rate if steady else 0.0


def counts(records: Sequence[RequestRecord], window: Window) -> Counts:
    """Requests that were under way in the window; those that an open loop never sent are none."""
    seen = [r for r in records if r.error != "dropped" and r.sent_ns < window.end_ns and r.end_ns >= window.start_ns]
    ended = [r for r in seen if r.end_ns < window.end_ns and r.error != "cancelled"]
    well = sum(record.ok for record in ended)
    return Counts(well=well, failed=len(ended) - well, open=len(seen) - len(ended))


def distributions(trial: Trial) -> dict[str, dict[str, float]]:
    """Of each latency that was seen: mean, stddev (of the population), min, percentiles and max, in our units."""
    found = samples(trial.measured.records, trial.measured.window)
    return {stem: spread(sample) for stem, sample in found.items() if sample}


def spread(sample: Sequence[float]) -> dict[str, float]:
    """Statistics of a sample that is not empty. Percentiles as in our metrics: linear interpolation."""
    array = np.asarray(sample, dtype=np.float64)
    quantiles = {name: float(np.quantile(array, at)) for name, at in _QUANTILES.items()}
    return {
        "mean": float(array.mean()), "stddev": float(array.std()), "min": float(array.min()), **quantiles,
        "max": float(array.max()),
    }  # fmt: skip


def definitions(keys: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Field of a file to what stands in it: our metric key, its formula, its source."""
    return {
        field: {"metric": key, "formula": METRICS[key].formula, "source": METRICS[key].source}
        for field, key in keys.items()
    }


def doubts(trial: Trial) -> dict[str, list[str]]:
    """By metric key, what speaks against its number."""
    return {key: list(metric.doubts) for key, metric in trial.metrics.items() if metric.doubts}


def is_own(fields: Fields) -> bool:
    """A file that `to_vllm` wrote."""
    return fields.has(f"{MARK}/definitions") and fields.has("completed")


def read_own(fields: Fields, file: str) -> list[Foreign]:
    """It has vLLM's fields and our definitions."""
    version = fields.text(f"{MARK}/version")
    ours = {place.key: Definition(METRICS[place.key].formula) for place in VLLM_PLACES}
    ours["error_rate"] = Definition(METRICS["error_rate"].formula)
    found = read_flat(fields, file, "servesmith", VLLM_FORMAT, ours)
    return [msgspec.structs.replace(found, version=version)]


def _version(path: Path) -> str:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Facts).version
    except FileNotFoundError:
        return ""
    except (OSError, msgspec.DecodeError) as error:
        raise EvidenceError(str(path), f"cannot be read: {error}", "Restore it from the original evidence.") from error
