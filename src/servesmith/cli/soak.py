"""`servesmith soak`: one long load; does the server hold its pace, its memory and its answers?"""

from typing import Annotated

import msgspec
import typer

from servesmith.cli import show
from servesmith.cli.common import (
    RUNS,
    AsJson,
    DryRun,
    MaybeTarget,
    Resume,
    RunsFolder,
    Seed,
    Sets,
    now,
    one_of,
    read_target,
    watching,
)
from servesmith.cli.finish import finished
from servesmith.errors import ClientTooSlow
from servesmith.stats.soak import SoakRules
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings
from servesmith.tune.soak import KEY
from servesmith.tune.soak import soak as measure


def soak(
    what: MaybeTarget = None,
    resume: Resume = None,
    minutes: Annotated[float, typer.Option("--minutes", min=0.01, help="How long is measured")] = 10.0,
    tolerance: Annotated[float, typer.Option("--tolerance", min=0.001, max=0.9, help="Change that is borne")] = 0.05,
    most_errors: Annotated[float, typer.Option("--errors", min=0.0, max=0.5, help="Failed share borne")] = 0.01,
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Load a server for long: steady, degrading or undecided by the trend of throughput, memory and errors.

    Example: servesmith soak recipe.yaml --minutes 10
    """
    one_of(what, resume, "soak")
    if resume is not None:
        return _go(resume_run(resume, watching(), now, "soak"), as_json=as_json)
    assert what is not None
    case = read_target(what, [*(sets or ()), f"load.window_s={60 * minutes:g}"])
    rules = SoakRules(tolerance=tolerance, most_errors=most_errors)
    plan = Plan(verb="soak", case=case, settings=Settings(seed=seed), extra=msgspec.to_builtins(rules), file=what)
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    return _go(open_run(plan, runs, watching(), now), as_json=as_json)


def _go(opened: Opened, *, as_json: bool) -> int:
    with show.ending(opened.run):
        found = measure(opened.run, opened.plan.case)
    finished(opened.run, as_json=as_json)
    if found is None and opened.run.results([KEY])[0].failure == "client-too-slow":
        return ClientTooSlow.exit_code
    return 1 if found is None or found.says == "degrading" else 0
