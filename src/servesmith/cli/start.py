"""`servesmith start`: how long a server takes until it serves, from emptied caches and from filled ones."""

from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import (
    RUNS,
    AsJson,
    DryRun,
    MaybeRecipe,
    Resume,
    RunsFolder,
    Seed,
    Sets,
    now,
    one_of,
    watching,
)
from servesmith.cli.finish import finished
from servesmith.recipe.files import read_case
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings
from servesmith.tune.starts import starts as measure


def start(
    recipe: MaybeRecipe = None,
    resume: Resume = None,
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=1, help="Cold starts, and as many warm ones")] = 5,
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Measure cold and warm starts: seconds to health and to the first token, medians with ranges.

    Example: servesmith start recipe.yaml --repeats 5
    """
    one_of(recipe, resume, "start")
    if resume is not None:
        return _go(resume_run(resume, watching(), now, "start"), as_json=as_json)
    assert recipe is not None
    case = read_case(recipe, sets or ())
    plan = Plan(verb="start", case=case, settings=Settings(seed=seed), extra={"repeats": repeats}, file=str(recipe))
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    return _go(open_run(plan, runs, watching(), now), as_json=as_json)


def _go(opened: Opened, *, as_json: bool) -> int:
    with show.ending(opened.run):
        found = measure(opened.run, opened.plan.case, int(opened.plan.extra["repeats"]))
    finished(opened.run, as_json=as_json)
    return 0 if found is not None else 1
