"""`servesmith check`: what is wrong with a recipe, before it costs a minute of a GPU."""

from servesmith.cli import show
from servesmith.cli.common import AsJson, RecipeFile, Sets
from servesmith.engine.registry import adapter
from servesmith.recipe.files import read_case
from servesmith.recipe.lint import check as lint


def check(recipe: RecipeFile, sets: Sets = None, as_json: AsJson = False) -> int:
    """Lint a recipe: unknown flags with the nearest match, secrets in env, files that are not there.

    Example: servesmith check recipe.yaml
    """
    case = read_case(recipe, sets or ())
    problems = lint(case, adapter(case.recipe.engine).known_flags())
    if as_json:
        show.json({"recipe": case.recipe.digest(), "problems": problems})
    else:
        show.problems(problems, clean=f"{recipe}: nothing found. Recipe {case.recipe.digest()}.")
    return 1 if problems else 0
