"""Who is who: every arm of every block served the recipe that its verdict is about, and both were asked the same."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from servesmith.errors import EvidenceError, InputError
from servesmith.recipe.files import read_case
from servesmith.store.events import Decided, NoiseMeasured, TrialResult
from servesmith.store.journal import JOURNAL
from servesmith.store.replay import Replay

RECIPE = "recipe.yaml"
"""File of a trial's folder: what was served."""


def check_identity(folder: Path, run: Replay, baseline: str) -> str:
    """Hold recipes and seeds of all blocks against each other; `baseline` is the hash of the case's own recipe.

    Raises EvidenceError at the first trial that is not what it stands for.
    """
    served = _recipes(folder, run)
    blocks = 0
    for name, keys, recipes in _claims(run, baseline):
        _arms(name, [_of(run, key) for key in keys], recipes)
        blocks += len(keys) // 2
    return f"{served} trials served the recipe of their hash; the arms of {blocks} blocks are who they should be"


def _recipes(folder: Path, run: Replay) -> int:
    """Every trial's own recipe file against its recipe hash; equal files are read once."""
    known: dict[str, str] = {}
    for result in run.results.values():
        file = f"{result.folder}/{RECIPE}"
        digest = result.files.get(RECIPE)
        if digest is None:
            raise EvidenceError(file, "was not recorded, so nobody knows what was served.")
        if digest not in known:
            known[digest] = _hash_of(folder, file)
        if known[digest] != result.recipe_hash:
            raise EvidenceError(file, f"is recipe {known[digest]}, the journal says {result.recipe_hash}.")
    return len(run.results)


def _hash_of(folder: Path, file: str) -> str:
    try:
        return read_case(folder / file).recipe.digest()
    except InputError as error:
        raise EvidenceError(file, f"is no recipe: {error.problems[0].message}") from error


def _claims(run: Replay, baseline: str) -> Iterator[tuple[str, Sequence[str], tuple[str, str]]]:
    """Everything that was decided from blocks: its name, its trials, the recipes that its arms must have ("": any)."""
    published = [event for event in run.events if isinstance(event, Decided) and event.stage in ("prove", "compare")]
    last = published[-1] if published else None
    final = run.closed.recipe_hash if run.closed else ""
    if published and run.closed and not final and run.closed.ending in ("done", "budget"):
        raise EvidenceError(JOURNAL, "the run ended with a result but names no final recipe.")
    for event in run.events:
        if isinstance(event, NoiseMeasured):
            yield "the noise", event.trials, (baseline, baseline)
        elif isinstance(event, Decided):
            name = f"{event.stage} {event.subject}"
            first = baseline if event in published else ""
            yield name, event.trials, (first, final if event is last else "")


def _of(run: Replay, key: str) -> TrialResult:
    if key not in run.results:
        raise EvidenceError(JOURNAL, f"a verdict stands on trial {key}, which is not recorded.")
    return run.results[key]


def _arms(name: str, results: Sequence[TrialResult], recipes: tuple[str, str]) -> None:
    """Each arm is one recipe throughout, no trial counts twice, and the arms of a block share their seed."""
    for arm, trials, recipe in zip("AB", (results[::2], results[1::2]), recipes, strict=True):
        for result in trials:
            if result.recipe_hash != (expected := recipe or trials[0].recipe_hash):
                what = f"{name}: {result.key} is {arm} but served recipe {result.recipe_hash}, not {expected}."
                raise EvidenceError(JOURNAL, what)
    if len({result.key for result in results}) != len(results) or len(results) % 2:
        raise EvidenceError(JOURNAL, f"{name}: a trial stands in more than one block, or in half a block.")
    for a, b in zip(results[::2], results[1::2], strict=True):
        if a.seed != b.seed:
            raise EvidenceError(JOURNAL, f"{name}: {a.key} has seed {a.seed}, {b.key} has {b.seed}.")
