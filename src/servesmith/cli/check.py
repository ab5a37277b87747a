"""`servesmith check`: what is wrong with a recipe, before it costs a minute of a GPU."""

from collections.abc import Sequence
from pathlib import Path

from servesmith.cli import show
from servesmith.cli.common import AsJson, RecipeFile, Sets
from servesmith.engine.registry import DRIVEN, adapter
from servesmith.errors import InputError, MachineError, Problem
from servesmith.recipe.files import read_case
from servesmith.recipe.lint import check as lint
from servesmith.recipe.model import Case
from servesmith.tune.plan import Plan
from servesmith.tune.preflight import preflight
from servesmith.tune.settings import Settings


def check(recipe: RecipeFile, sets: Sets = None, as_json: AsJson = False) -> int:
    """Lint a recipe: unknown flags with the nearest match, secrets in env, files that are not there.

    Example: servesmith check recipe.yaml
    """
    case = read_case(recipe, sets or ())
    problems = told_once(lint(case, _known_flags(case)), _refusals(case, recipe))
    if as_json:
        show.json({"recipe": case.recipe.digest(), "problems": problems})
    else:
        show.problems(problems, clean=f"{recipe}: nothing found. Recipe {case.recipe.digest()}.")
    return 1 if problems else 0


def told_once(found: Sequence[Problem], refusals: Sequence[Problem]) -> tuple[Problem, ...]:
    """What lint found, and of what a tune would refuse only what is of other fields: one mistake has one remedy."""
    fields = {problem.field for problem in found}
    return (*found, *(problem for problem in refusals if problem.field not in fields))


def _known_flags(case: Case) -> frozenset[str] | None:
    """The engine's flags; None for an engine that this version reads but does not drive."""
    return adapter(case.recipe.engine).known_flags() if case.recipe.engine in DRIVEN else None


def _refusals(case: Case, file: Path) -> tuple[Problem, ...]:
    """What a tune would refuse at once, beyond what lint sees."""
    if case.recipe.engine not in DRIVEN or case.recipe.engine == "endpoint":
        return ()
    try:
        preflight(Plan(verb="tune", case=case, settings=Settings(), file=str(file)))
    except InputError as error:
        return error.problems
    except MachineError as error:
        return (Problem(error.message, error.remedy, file=str(file)),)
    return ()
