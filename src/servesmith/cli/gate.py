"""`servesmith gate`: are the answers of B as good as those of A?"""

from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, RecipeFile, RunsFolder, Seed, Sets, now, rival_case, watching
from servesmith.cli.finish import finished
from servesmith.recipe.files import read_case
from servesmith.tune.compare import gate as loop
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan
from servesmith.tune.settings import Settings


def gate(
    a: RecipeFile,
    b: RecipeFile,
    sets: Sets = None,
    b_sets: Annotated[list[str] | None, typer.Option("--set-b", help="Change one value of B only")] = None,
    items: Annotated[int, typer.Option("--items", min=0, help="Items per task; 0: from the planner")] = 0,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    as_json: AsJson = False,
) -> int:
    """Ask both the same questions and judge the difference. Exit code 1 if B does not pass.

    Example: servesmith gate a.yaml b.yaml
    """
    case, rival = read_case(a, sets or ()), rival_case(b, sets or (), b_sets or ())
    settings = Settings(seed=seed, quality_items=items or case.quality.items)
    plan = Plan(verb="gate", case=case, settings=settings, rival=rival, file=str(a), rival_file=str(b))
    opened = open_run(plan, runs, watching(), now)
    with show.ending(opened.run):
        gated = loop(opened.run, case, rival.recipe)
    finished(opened.run, as_json=as_json)
    return 0 if gated.passed else 1
