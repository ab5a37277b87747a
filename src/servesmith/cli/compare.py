"""`servesmith compare`: is B better than A? Paired blocks of server starts until a verdict."""

import re
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import (
    RUNS,
    AsJson,
    DryRun,
    RecipeFile,
    RunsFolder,
    Seed,
    Sets,
    budget_seconds,
    now,
    rival_case,
    watching,
)
from servesmith.cli.finish import finished
from servesmith.errors import InputError, Problem
from servesmith.recipe.files import read_case
from servesmith.tune.compare import compare as loop
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings


def compare(
    a: RecipeFile,
    b: RecipeFile,
    sets: Sets = None,
    b_sets: Annotated[list[str] | None, typer.Option("--set-b", help="Change one value of B only")] = None,
    looks: Annotated[str, typer.Option("--looks", help="Numbers of blocks at which to look")] = "4,6,8,10,12",
    budget: Annotated[str, typer.Option("--budget", help="Time for trials: 8m, 2h; empty: no limit")] = "",
    require_quality: Annotated[bool, typer.Option("--require-quality", help="B must pass the gate too")] = False,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Compare two recipes in paired blocks; workload, load and goal are those of A.

    Example: servesmith compare a.yaml b.yaml
    """
    case, rival = read_case(a, sets or ()), rival_case(b, sets or (), b_sets or ())
    settings = Settings(
        seed=seed,
        budget_s=budget_seconds(budget),
        looks=_looks(looks),
        proof_blocks=0,
        quality_items=case.quality.items,
        minimum_gain=case.goal.minimum_gain,
    )
    plan = Plan(
        verb="compare",
        case=case,
        settings=settings,
        rival=rival,
        require_quality=require_quality,
        file=str(a),
        rival_file=str(b),
    )
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    opened = open_run(plan, runs, watching(), now)
    with show.ending(opened.run):
        _, gated = loop(opened.run, case, rival.recipe, require_quality=require_quality)
    summary = finished(opened.run, as_json=as_json)
    return 1 if summary.ending == "failed" or (gated is not None and not gated.passed) else 0


def _looks(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,4}", part.strip()) for part in parts):
        raise InputError(Problem(f"{text!r} is no list of numbers.", "Write it like 4,6,8.", field="--looks"))
    looks = tuple(int(part) for part in parts)
    if list(looks) != sorted(set(looks)) or looks[0] < 4:
        raise InputError(
            Problem(
                f"{text!r} must rise and begin at 4 or more.", "Fewer than 4 blocks decide nothing.", field="--looks"
            )
        )
    return looks
