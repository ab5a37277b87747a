"""Everything that can be found wrong with a plan without starting a server, before its first trial is paid for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from servesmith.engine.registry import adapter
from servesmith.errors import InputError, Problem
from servesmith.measure.metrics import METRICS
from servesmith.measure.terms import terms_of
from servesmith.quality.gate import LOSSLESS, NUMERICS, plan_exam
from servesmith.recipe.levers import apply
from servesmith.recipe.lint import model_problems
from servesmith.recipe.model import Case, Lever, Recipe
from servesmith.recipe.problems import nearest
from servesmith.tune.place import Place, place_of
from servesmith.tune.plan import Plan

ANY_PORT = 0
"""Stands for the free port that is drawn at each start."""
_RESTARTS = ("tune", "ablate", "start")
"""Verbs that change the recipe or its caches, so that the server must be ours to restart."""


def preflight(plan: Plan) -> None:
    """Raises InputError with every problem of the plan, MachineError if an engine is not here.

    Builds the command of every recipe and of every lever that would be tried alone, draws the gate's exams, and looks
    up every metric that is named.
    """
    found = [*_restarts(plan), *_metrics(plan)]
    if not found:
        found = [*_commands(plan), *_exams(plan)]
    if found:
        raise InputError(*dict.fromkeys(found))


def _restarts(plan: Plan) -> Iterator[Problem]:
    if plan.verb in _RESTARTS and plan.case.recipe.engine == "endpoint":
        yield Problem(
            f"Is a server that someone else runs, and {plan.verb} must restart it.",
            "Use bench or compare on it, or give a recipe with an engine.",
            plan.file,
            field="engine",
        )


def _metrics(plan: Plan) -> Iterator[Problem]:
    goal = plan.case.goal
    named = [(plan.file, "goal.metric", goal.metric), *((plan.file, f"goal.limits.{key}", key) for key in goal.limits)]
    named += [(f"lever {lever.name}", "secondary", lever.secondary) for lever in plan.levers if lever.secondary]
    for file, field, key in named:
        if key not in METRICS:
            yield Problem(f"There is no metric {key!r}.", nearest(key, tuple(METRICS)), file, field=field)
        elif missing := _lacks(plan.case, key):
            yield Problem(f"{key} cannot be computed.", f"Give {missing}.", file, field=field)


def _lacks(case: Case, key: str) -> str:
    """What the case must give for a metric that does not follow from records alone; empty: nothing."""
    terms = terms_of(case.goal, case.recipe)
    if key.startswith("goodput") and not terms.request_limits:
        return "goal.request_limits, for example {ttft_ms: 2000, tpot_ms: 50}"
    if key.endswith("_per_gpu") and not terms.gpus:
        return "goal.gpus, the number of GPUs that serve"
    return "goal.price_per_hour" if key.startswith("cost") and not terms.price_per_hour else ""


def _commands(plan: Plan) -> Iterator[Problem]:
    recipe = plan.case.recipe
    wrong = list(_command(recipe, plan.file))
    yield from wrong
    if plan.rival is not None:
        yield from _command(plan.rival.recipe, plan.rival_file)
    if plan.levers and not wrong:  # else every lever would say again what is wrong with the recipe
        place = place_of(plan.case, adapter(recipe.engine))
        for lever in plan.levers:
            yield from _lever(recipe, lever, place)


def _lever(recipe: Recipe, lever: Lever, place: Place) -> Iterator[Problem]:
    file = f"lever {lever.name}"
    try:
        if place.refuses(lever, recipe):
            return
        changed = apply(recipe, lever)
    except InputError as error:
        yield from (replace(problem, file=file) for problem in error.problems)
    else:
        yield from _command(changed, file)


def _command(recipe: Recipe, file: str) -> Iterator[Problem]:
    """What is wrong with its command; a server that already runs needs none."""
    if recipe.url:
        return
    if recipe.image:
        message = "Names an image, and this version starts no containers: something else would be served."
        remedy = "Delete `image` and `container`, or start it yourself and use `engine: endpoint` with its url."
        yield Problem(message, remedy, file, field="image")
        return
    if _opens_its_model_here(recipe) and (missing := [replace(p, file=file) for p in model_problems(recipe)]):
        yield from missing
        return
    try:
        adapter(recipe.engine).command(recipe, ANY_PORT)
    except InputError as error:
        yield from (replace(problem, file=problem.file or file) for problem in error.problems)


def _opens_its_model_here(recipe: Recipe) -> bool:
    """False for a command of the user's own: it may take the model from elsewhere, a container or another machine."""
    own = recipe.executable
    return not own or (len(own) == 1 and Path(own[0]).name == "llama-server" and bool(recipe.model))


def _exams(plan: Plan) -> Iterator[Problem]:
    if plan.verb not in ("tune", "gate") and not plan.require_quality:
        return
    quality = plan.case.quality
    quality = quality.model_copy(update={"items": plan.settings.quality_items or quality.items})
    for level in (LOSSLESS, NUMERICS):
        try:
            plan_exam(quality, level, plan.settings.seed)
        except InputError as error:
            yield from (
                replace(problem, file=plan.file, field=problem.field or "quality") for problem in error.problems
            )
            return
