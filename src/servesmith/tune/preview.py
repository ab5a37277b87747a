"""`--dry-run`: the exact commands and what would be measured, before anything is."""

from collections.abc import Sequence

import msgspec

from servesmith.engine.registry import adapter
from servesmith.recipe.command import shell_line
from servesmith.recipe.levers import apply
from servesmith.recipe.model import Lever, Recipe
from servesmith.recipe.secrets import mask
from servesmith.tune.place import Place
from servesmith.tune.plan import Plan
from servesmith.tune.preflight import ANY_PORT, preflight
from servesmith.tune.run import GATE_ARMS


class Candidate(msgspec.Struct, frozen=True):
    """One lever: would it be tried, and with which command."""

    lever: str
    risk: str
    bound: float
    tried: bool
    because: str
    command: str


class Preview(msgspec.Struct, frozen=True):
    """What a run would do."""

    verb: str
    commands: dict[str, str]
    candidates: tuple[Candidate, ...]
    trial_seconds: float
    """Warm-up and window of one trial; starting comes on top."""
    settings: dict[str, float | int | str | bool]
    blocks: tuple[int, int] = (0, 0)
    """Of a compare: fewest and most pairs of trials until its verdict."""
    answers: int = 0
    """Trials in which the gate asks its questions."""


def preview(plan: Plan, place: Place | None = None) -> Preview:
    """Commands of the recipes and of every lever that would be tried. Starts nothing; raises as `preflight` does."""
    preflight(plan)
    recipes = {plan.case.recipe.name: plan.case.recipe}
    if plan.rival is not None:
        recipes[f"{plan.rival.recipe.name} (B)"] = plan.rival.recipe
    return Preview(
        verb=plan.verb,
        commands={name: _command(recipe) for name, recipe in recipes.items()},
        candidates=_candidates(plan.case.recipe, plan.levers, place) if place else (),
        trial_seconds=plan.case.load.warmup_s + plan.case.load.window_s,
        settings={**plan.settings.as_values(), **plan.extra},
        blocks=(plan.settings.looks[0], plan.settings.looks[-1]) if plan.verb == "compare" else (0, 0),
        answers=GATE_ARMS if plan.require_quality else 0,
    )


def _candidates(recipe: Recipe, levers: Sequence[Lever], place: Place) -> tuple[Candidate, ...]:
    rows: list[Candidate] = []
    for lever in levers:
        reason = place.refuses(lever, recipe)
        command = "" if reason else _command(apply(recipe, lever))
        rows.append(Candidate(lever.name, lever.risk, lever.bound, not reason, reason or lever.why, command))
    return tuple(rows)


def _command(recipe: Recipe) -> str:
    if recipe.url:
        return f"(none: {recipe.url} is run by someone else)"
    command = adapter(recipe.engine).command(recipe, ANY_PORT)
    return shell_line(command.argv, mask(command.env))
