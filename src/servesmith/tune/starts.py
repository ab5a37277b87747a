"""`start`: how long a server takes to come up, from emptied caches and from filled ones, in turn."""

import shutil
from pathlib import Path

from servesmith.errors import MachineError
from servesmith.probing import StartErrand
from servesmith.recipe.caches import redirected, variables
from servesmith.recipe.model import Case
from servesmith.store.events import Noted, Ranged, RunClosed, TrialResult
from servesmith.store.ranged import range_in_words, ranged
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived

CACHES = "caches"
"""Folder of the run that stands in for the engine's cache folders while it is measured."""


def starts(run: Run, case: Case, repeats: int) -> Ranged | None:
    """Cold and warm in turn, `repeats` times each; every warm start finds what the cold one before it left.

    Both have the same variables, so that only what lies in the folders differs. None: a start failed.
    """
    root = run.folder.resolve() / CACHES
    recipe = redirected(case.recipe, root)
    run.record(Noted(note=_emptied(case.recipe.engine)))
    run.watch.stage("start: cold and warm in turn", 2 * repeats)
    results: list[TrialResult] = []
    for number in range(1, repeats + 1):
        for caches in ("cold", "warm"):
            key = f"start/{caches}/{number}"
            if not run.recorded(key):
                _prepare(root, caches, variables(case.recipe.engine))
            results.append(run.trial(Order(key, recipe, StartErrand(caches), derived(run.settings.seed, key))))
            if results[-1].ending != "ok":
                return _failed(run, results[-1])
    shutil.rmtree(root, ignore_errors=True)
    event = ranged(results)
    run.record(event)
    run.record(RunClosed(ending="done", because=_told(event), recipe_hash=case.recipe.digest()))
    return event


def _prepare(root: Path, caches: str, names: tuple[str, ...]) -> None:
    """Empty the folders before a cold start. Raises MachineError if a warm one would not find them."""
    if caches == "cold":
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True, exist_ok=True)
    elif names and not root.exists():
        raise MachineError(f"The caches of this run are gone: {root}.", "Start a new run.")


def _emptied(engine: str) -> str:
    names = variables(engine)
    what = f"the folders of {', '.join(names)}" if names else "nothing: no cache folder of this engine is known"
    return (
        f"Emptied before each cold start: {what}. Not emptied: the page cache of the operating system, which takes "
        "root, so model files may come from memory in every start but the first."
    )


def _failed(run: Run, result: TrialResult) -> None:
    run.record(RunClosed(ending="failed", because=f"{result.key} {result.failure}: {result.log_line}"))


def _told(event: Ranged) -> str:
    cold, warm = (range_in_words(event.arms[arm]["time_to_first_token_s"], "s") for arm in ("cold", "warm"))
    return f"First token after {cold} from emptied caches, after {warm} from filled ones."
