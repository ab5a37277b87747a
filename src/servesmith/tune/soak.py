"""`soak`: one start under one long load. Does it hold its pace, its memory and its answers?"""

from servesmith.errand import LoadErrand
from servesmith.measure.evidence import RECORDS, read_measured
from servesmith.measure.terms import terms_of
from servesmith.recipe.model import Case
from servesmith.stats.soak import SoakVerdict
from servesmith.store.events import RunClosed, Soaked
from servesmith.store.soak import soak_rules_of, verdict_on
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived

KEY = "soak/1"


def soak(run: Run, case: Case) -> SoakVerdict | None:
    """Load for as long as the case's window says and judge. None: the trial failed before."""
    run.watch.stage(f"soak: {case.load.window_s / 60:g} minutes", 1)
    errand = LoadErrand(case.workload, case.load, terms_of(case.goal, case.recipe))
    order = Order(KEY, case.recipe, errand, derived(run.settings.seed, KEY))
    result = run.trial(order)
    if RECORDS not in result.files or result.failure == "client-too-slow":
        run.record(RunClosed(ending="failed", because=f"{KEY} {result.failure}: {result.log_line}"))
        return None
    measured = read_measured(run.folder / result.folder)
    verdict = verdict_on(measured, result, soak_rules_of(run.journal.opened))
    run.record(Soaked(trial=KEY, verdict=verdict))
    because = f"{verdict.says.capitalize()} over {measured.window.seconds / 60:.3g} minutes: {verdict.because}"
    run.record(RunClosed(ending="done", because=because, recipe_hash=case.recipe.digest()))
    return verdict
