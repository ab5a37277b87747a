"""`servesmith knee`: the most streams that keep the limits, with a confidence; and the curve on the way."""

import re
from typing import Annotated

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
    with_limits,
)
from servesmith.cli.finish import finished
from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Case
from servesmith.stats.knee import KneeRules
from servesmith.store.knee import rules_as_values
from servesmith.tune.knee import knee as measure
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings


def knee(
    what: MaybeTarget = None,
    resume: Resume = None,
    limit: Annotated[list[str] | None, typer.Option("--limit", help="Worst value allowed: ttft_p95_ms=2000")] = None,
    levels: Annotated[str, typer.Option("--levels", help="Measure these numbers of streams: 1,2,4,8")] = "",
    first: Annotated[int, typer.Option("--first", min=1, help="Streams at which the doubling begins")] = 1,
    most: Annotated[int, typer.Option("--most", min=1, help="Most streams that are tried")] = 256,
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=3, help="Fresh starts of a level at the edge")] = 6,
    resolution: Annotated[float, typer.Option("--resolution", min=0, max=0.9, help="Close enough: 0.05 is 5 %")] = 0.05,
    confidence: Annotated[float, typer.Option("--confidence", min=0.5, max=0.999, help="Of each side's claim")] = 0.95,
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Find the most streams that keep the limits, with a confidence; exit code 1 if no level is shown to keep them.

    Example: servesmith knee recipe.yaml --limit ttft_p95_ms=2000
    """
    one_of(what, resume, "knee")
    if resume is not None:
        return _go(resume_run(resume, watching(), now, "knee"), as_json=as_json)
    assert what is not None
    case = with_limits(read_target(what, sets or ()), limit or ())
    ladder = numbers(levels, "--levels")
    _require_limits(case, ladder)
    try:
        rules = KneeRules(
            first=first, most=most, repeats=repeats, resolution=resolution, confidence=confidence, ladder=ladder
        )
    except ValueError as error:
        raise InputError(Problem(f"{error}.", "See `servesmith knee --help`.")) from None
    extra = {"dial": "streams", **rules_as_values(rules)}
    plan = Plan(verb="knee", case=case, settings=Settings(seed=seed), extra=extra, file=what)
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    return _go(open_run(plan, runs, watching(), now), as_json=as_json)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """`1,2,4,8` as numbers that rise. Raises InputError."""
    if not text:
        return ()
    parts = text.split(",")
    if not all(re.fullmatch(r"\s*[0-9]{1,6}\s*", part) for part in parts):
        raise InputError(Problem(f"{text!r} is no list of numbers.", "Write it like 1,2,4,8.", field=option))
    found = tuple(int(part) for part in parts)
    if list(found) != sorted(set(found)) or found[0] < 1:
        raise InputError(Problem(f"{text!r} must rise from 1 or more.", "Write it like 1,2,4,8.", field=option))
    return found


def _require_limits(case: Case, ladder: tuple[int, ...]) -> None:
    if not case.goal.limits and not ladder:
        remedy = "Give --limit ttft_p95_ms=2000 or goal.limits in the recipe; or --levels 1,2,4,8 for the curve alone."
        raise InputError(Problem("a knee needs a limit.", remedy, field="--limit"))
    bad = [key for key, value in case.goal.limits.items() if not value > 0]
    if bad:
        remedy = "Give a small one instead: that a value is exactly 0 cannot be shown from samples."
        raise InputError(*(Problem("a limit must be above 0.", remedy, field=f"goal.limits.{key}") for key in bad))


def _go(opened: Opened, *, as_json: bool) -> int:
    with show.ending(opened.run):
        found = measure(opened.run, opened.plan.case)
    finished(opened.run, as_json=as_json)
    return 1 if found is not None and not found.at_least else 0
