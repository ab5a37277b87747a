"""`servesmith prefill`: prompt tokens a second, from long prompts with answers of one token."""

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
)
from servesmith.cli.finish import finished
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.prefill import prefill as measure
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings


def prefill(
    what: MaybeTarget = None,
    resume: Resume = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Prompt tokens of each prompt")] = 8192,
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="How many prompts")] = 16,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="How many at a time")] = 16,
    repeats: Annotated[int, typer.Option("--repeats", "-n", min=1, help="Fresh starts")] = 3,
    sets: Sets = None,
    seed: Seed = 1,
    runs: RunsFolder = RUNS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Measure prefill: prompt tokens a second by the server's count, cached ones excluded, medians with ranges.

    Example: servesmith prefill recipe.yaml --tokens 2048 --prompts 16
    """
    one_of(what, resume, "prefill")
    if resume is not None:
        return _go(resume_run(resume, watching(), now, "prefill"), as_json=as_json)
    assert what is not None
    case = read_target(what, [*(sets or ()), f"workload.prompt_tokens={tokens}"])
    extra: dict[str, float | int | str | bool] = {"prompts": prompts, "concurrency": concurrency, "repeats": repeats}
    plan = Plan(verb="prefill", case=case, settings=Settings(seed=seed), extra=extra, file=what)
    if dry_run:
        show.preview(preview(plan), as_json=as_json)
        return 0
    return _go(open_run(plan, runs, watching(), now), as_json=as_json)


def _go(opened: Opened, *, as_json: bool) -> int:
    with show.ending(opened.run):
        found = measure(opened.run, opened.plan.case)
    finished(opened.run, as_json=as_json)
    return 0 if found is not None else 1
