"""`bench`: one recipe, measured; nothing is decided."""

from servesmith.errand import LoadErrand
from servesmith.measure.terms import terms_of
from servesmith.recipe.model import Case
from servesmith.store.events import RunClosed, TrialResult
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived


def bench(run: Run, case: Case, repeats: int) -> list[TrialResult]:
    """So many trials, each on a fresh start with fresh prompts."""
    results: list[TrialResult] = []
    run.watch.stage("bench", repeats)
    for number in range(1, repeats + 1):
        key = f"bench/{number}"
        errand = LoadErrand(case.workload, case.load, terms_of(case.goal, case.recipe))
        results.append(run.trial(Order(key, case.recipe, errand, derived(run.settings.seed, key))))
    bad = [result for result in results if result.ending != "ok"]
    because = f"{bad[0].ending}, {bad[0].failure}: {bad[0].log_line}" if bad else "Measured."
    run.record(RunClosed(ending="failed" if bad else "done", because=because, recipe_hash=case.recipe.digest()))
    return results
