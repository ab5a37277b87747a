"""`servesmith bench`: one trial of a recipe, or of a server that someone else runs; the numbers with their doubts."""

import os
from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, DryRun, RunsFolder, Seed, Sets, now, watching
from servesmith.cli.finish import finished
from servesmith.errors import ClientTooSlow, InputError, Problem
from servesmith.recipe.files import read_case, with_sets
from servesmith.recipe.model import Case, Recipe
from servesmith.tune.bench import bench as measure
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings


def bench(
    what: Annotated[str, typer.Argument(help="Recipe file, or the URL of a running server", show_default=False)],
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=1, help="Trials, each on a fresh start")] = 1,
    key_env: Annotated[str, typer.Option("--key-env", help="Name of the variable that holds a bearer key")] = "",
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Measure one recipe, or a running server: throughput, TTFT, TPOT, each with its doubts.

    Example: servesmith bench recipe.yaml --set load.streams=16
    """
    case = _case(what, sets or [], key_env)
    plan = Plan(verb="bench", case=case, settings=Settings(seed=seed), file=what)
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    opened = open_run(plan, runs, watching(), now)
    with show.ending(opened.run):
        results = measure(opened.run, case, repeats)
    finished(opened.run, as_json=as_json)
    if any(result.failure == "client-too-slow" for result in results):
        return ClientTooSlow.exit_code
    return 0 if all(result.ending == "ok" for result in results) else 1


def _case(what: str, sets: list[str], key_env: str) -> Case:
    if key_env and key_env not in os.environ:
        raise InputError(
            Problem(f"the variable {key_env} is not set.", "Export the key under that name.", field="--key-env")
        )
    if what.startswith(("http://", "https://")):
        return with_sets(Case(recipe=Recipe(name="endpoint", engine="endpoint", url=what, key_env=key_env)), sets)
    case = read_case(Path(what), sets)
    return case.model_copy(update={"recipe": case.recipe.model_copy(update={"key_env": key_env})}) if key_env else case
