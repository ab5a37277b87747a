"""`compare` and `gate`: two recipes, blocks until a verdict, answers until a gate's word."""

from servesmith.recipe.model import Case, Recipe
from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Gated, RunClosed
from servesmith.tune.blocks import Arena, Pairing
from servesmith.tune.confirm import why_not
from servesmith.tune.gating import Gatekeeper
from servesmith.tune.run import Run


def compare(run: Run, case: Case, rival: Recipe, *, require_quality: bool) -> tuple[Verdict, Gated | None]:
    """Is `rival` better than the case's recipe? Paired blocks until a verdict; the gate first if it is required."""
    gated = Gatekeeper(run, case).judge(rival.name, rival, "numerics") if require_quality else None
    run.watch.stage("compare: paired blocks", 2 * run.settings.looks[0])
    blocks = Arena(run, case).until_verdict(Pairing("compare", case.recipe, rival))
    run.record(Decided(stage="compare", subject=rival.name, verdict=blocks.verdict, trials=blocks.trials))
    because = why_not(blocks, case.goal.minimum_gain) if blocks.failed else blocks.verdict.because
    if blocks.cut:
        budget = f"The budget of {run.settings.budget_s:.0f} s for trials does not hold the blocks to the next look"
        because = f"{budget}: {because}"
    ending = "failed" if blocks.failed else "budget" if blocks.cut else "done"
    run.record(RunClosed(ending=ending, because=because, recipe_hash=rival.digest()))
    return blocks.verdict, gated


def gate(run: Run, case: Case, rival: Recipe) -> Gated:
    """Are the rival's answers as good as those of the case's recipe?"""
    gated = Gatekeeper(run, case).judge(rival.name, rival, "numerics")
    run.record(RunClosed(ending="done", because=gated.because, recipe_hash=rival.digest()))
    return gated
