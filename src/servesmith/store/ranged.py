"""Medians and ranges over single starts: of a `start` and of a `prefill`, for the loop and for `verify` alike."""

from collections.abc import Iterable
from pathlib import Path

from servesmith.errors import EvidenceError
from servesmith.measure.evidence import RECORDS
from servesmith.measure.parquet import read_records
from servesmith.measure.startup import STARTUP, read_startup
from servesmith.recipe.caches import without_caches
from servesmith.recipe.files import read_case
from servesmith.recipe.model import Recipe
from servesmith.stats.ranges import Range, range_of
from servesmith.stats.sample import percent
from servesmith.store.events import Ranged, TrialResult
from servesmith.store.journal import JOURNAL
from servesmith.store.replay import Replay


def arm_of(key: str) -> str:
    """The second part of `start/cold/3`."""
    return key.split("/")[1] if key.count("/") >= 2 else ""


def ranged(results: Iterable[TrialResult]) -> Ranged:
    """Over the good trials, in the order given."""
    values: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for key, metric in result.metrics.items() if result.ending == "ok" else ():
            values.setdefault(arm_of(result.key), {}).setdefault(key, []).append(metric.value)
    return Ranged(
        arms={arm: {key: range_of(sample) for key, sample in metrics.items()} for arm, metrics in values.items()}
    )


def check_ranges(folder: Path, run: Replay, recipe: Recipe) -> str:
    """Recompute medians and ranges. Raises EvidenceError where they differ, or where a trial was not what its key says:
    of another recipe (cache folders apart), or with caches in another state."""
    events = [event for event in run.events if isinstance(event, Ranged)]
    for result in run.results.values():
        _same_recipe(folder, result, recipe)
    for event in events:
        found = ranged(run.results.values())
        if event != found:
            raise EvidenceError(JOURNAL, f"the ranges are told as {event.arms}, the trials give {found.arms}.")
    return f"{len(events)} set{'s' * (len(events) != 1)} of medians and ranges recomputed"


def _same_recipe(folder: Path, result: TrialResult, recipe: Recipe) -> None:
    file = f"{result.folder}/recipe.yaml"
    served = without_caches(read_case(folder / file).recipe)
    if served.digest() != without_caches(recipe).digest():
        raise EvidenceError(file, "is another recipe than the one of this run.")
    if result.ending == "ok" and RECORDS in result.files:
        records, _ = read_records(folder / result.folder / RECORDS)
        shape = f"{len(records)}x{records[0].prompt_tokens_meant}"
        if shape != arm_of(result.key):
            raise EvidenceError(f"{result.folder}/{RECORDS}", f"holds {shape} prompts, its key says otherwise.")
    if result.ending == "ok" and STARTUP in result.files:
        caches = read_startup(folder / result.folder).caches
        if caches != arm_of(result.key):
            raise EvidenceError(f"{result.folder}/{STARTUP}", f"is of {caches} caches, its key says otherwise.")


def range_in_words(found: Range, unit: str, digits: int = 4) -> str:
    """`1.23 s (1.20 to 1.31 over 5 starts)`."""
    low, middle, high = (f"{value:,.{digits}g}" if value < 1000 else f"{value:,.0f}" for value in
                         (found.low, found.median, found.high))  # fmt: skip
    if found.starts == 1:
        return f"{middle} {unit} (one start)"
    return f"{middle} {unit} ({low} to {high} over {found.starts} starts)"


def confidence_in_words(found: Range) -> str:
    """How surely the range holds the median of all starts."""
    return percent(found.confidence, 0)
