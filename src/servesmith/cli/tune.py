"""`servesmith tune`: the loop, from a recipe to a faster one with proof."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, DryRun, RunsFolder, Seed, Sets, budget_seconds, now, watching
from servesmith.cli.finish import finished
from servesmith.engine.registry import adapter
from servesmith.errors import InputError, Problem
from servesmith.recipe.files import read_case
from servesmith.recipe.levers import builtin_levers, combine, read_levers
from servesmith.recipe.model import Case, Lever
from servesmith.tune.loop import tune as loop
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.place import place_of
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.run import IncumbentFailed
from servesmith.tune.settings import Settings


def tune(
    recipe: Annotated[Path | None, typer.Argument(help="Recipe file (YAML)", show_default=False)] = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="Go on with this run", show_default=False)] = None,
    budget: Annotated[str, typer.Option("--budget", help="Time for trials: 8m, 2h; empty: no limit")] = "",
    levers: Annotated[list[Path] | None, typer.Option("--levers", help="Your own levers (YAML)")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Try only this lever (repeatable)")] = None,
    allow_lossy: Annotated[list[str] | None, typer.Option("--allow-lossy", help="Allow this lossy lever")] = None,
    proof_blocks: Annotated[int, typer.Option("--proof-blocks", min=4, help="Fresh blocks of the proof")] = 6,
    refine: Annotated[int, typer.Option("--refine", min=0, help="Short trials for refining numbers")] = 6,
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Find a faster recipe and prove it: noise, screen, confirm in blocks, gate, refine, ablate, prove.

    Example: servesmith tune recipe.yaml --budget 30m
    """
    if (recipe is None) == (resume is None):
        raise InputError(
            Problem("give a recipe file or --resume RUN, one of the two.", "See `servesmith tune --help`.")
        )
    if resume is not None:
        _refuse_beside_resume(budget=budget, levers=levers, only=only, allow_lossy=allow_lossy, set=sets)
        if dry_run:
            raise InputError(
                Problem("shows a plan, and a run to be resumed has one.", "Leave it out.", field="--dry-run")
            )
        return _go(resume_run(resume, watching(), now), as_json=as_json)
    assert recipe is not None
    case = read_case(recipe, sets or ())
    chosen = choose(case, levers or [], only or [], allow_lossy or [])
    settings = Settings(
        seed=seed,
        budget_s=budget_seconds(budget),
        proof_blocks=proof_blocks,
        refine_trials=refine,
        quality_items=case.quality.items,
        minimum_gain=case.goal.minimum_gain,
        allow_lossy=",".join(allow_lossy or []),
    )
    plan = Plan(verb="tune", case=case, settings=settings, levers=chosen, file=str(recipe))
    if dry_run:
        show.preview(preview(plan, place_of(case, adapter(case.recipe.engine))), as_json=as_json)
        return 0
    return _go(open_run(plan, runs, watching(), now), as_json=as_json)


def _refuse_beside_resume(**given: object) -> None:
    """Raises InputError for options that a resumed run would not heed: its decisions must replay as they were made."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if names:
        message = "changes nothing in a run that is resumed: it keeps what it was started with."
        remedy = "Leave it out, or start a new run with it."
        raise InputError(*(Problem(message, remedy, field=name) for name in names))


def choose(case: Case, files: list[Path], only: list[str], allow_lossy: list[str]) -> tuple[Lever, ...]:
    """The library's levers for this engine and the user's own. Raises InputError on names that no lever has.

    Lossy levers are among them; the loop refuses those that are not allowed by name, and says so.
    """
    engine = case.recipe.engine
    sources = {f"the library of {engine}": builtin_levers(engine)} | {str(file): read_levers(file) for file in files}
    known = combine(sources, engine)
    names = {lever.name for lever in known}
    if unknown := [name for name in (*only, *allow_lossy) if name not in names]:
        raise InputError(
            *(Problem(f"there is no lever {name!r}.", f"There are: {', '.join(sorted(names))}.") for name in unknown)
        )
    wanted = [lever for lever in known if not only or lever.name in only]
    return _among_themselves(wanted)


def _among_themselves(levers: Sequence[Lever]) -> tuple[Lever, ...]:
    """Without exclusions of levers that are not there: the run's own file of levers could not name them."""
    names = {lever.name for lever in levers}
    excludes = ({"excludes": tuple(name for name in lever.excludes if name in names)} for lever in levers)
    return tuple(lever.model_copy(update=change) for lever, change in zip(levers, excludes, strict=True))


def _go(opened: Opened, *, as_json: bool) -> int:
    run, plan = opened.run, opened.plan
    with show.ending(run):
        try:
            tuned = loop(run, plan.case, plan.levers, place_of(plan.case, adapter(plan.case.recipe.engine)))
        except IncumbentFailed:
            finished(run, as_json=as_json)
            raise
    finished(run, as_json=as_json)
    return 1 if tuned.refuted else 0
