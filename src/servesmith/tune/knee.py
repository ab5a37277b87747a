"""`knee`: the most streams, or the highest rate, that keep the limits. The search chooses where fresh starts decide."""

import math
from collections.abc import Callable

import msgspec

from servesmith.errand import LoadErrand
from servesmith.measure.terms import terms_of
from servesmith.recipe.model import Case, Load
from servesmith.stats.knee import Knee, KneeRules, Probe, decide
from servesmith.store.events import KneeFound, Noted, RunClosed, TrialResult
from servesmith.store.knee import RATE_PER_LEVEL, Place, answer_in_words, knee_rules_of, seen
from servesmith.trial import Order
from servesmith.tune.run import IncumbentFailed, Run
from servesmith.tune.seeds import derived

Turn = Callable[[Load, int], Load]
"""The load at a level. Another dial is another function here and its noun in store.knee.DIALS."""


def _streams(load: Load, level: int) -> Load:
    return load.model_copy(update={"streams": level})


def _rate(load: Load, level: int) -> Load:
    assert load.arrivals is not None
    arrivals = load.arrivals.model_copy(update={"rate": level * RATE_PER_LEVEL})
    return load.model_copy(update={"arrivals": arrivals})


TURNS: dict[str, Turn] = {"streams": _streams, "rate": _rate}
TURNABLE = ("poisson", "gamma", "constant")
"""Arrival processes that one rate describes."""


def knee(run: Run, case: Case) -> Knee | None:
    """Measure until the answer stands. None: no limits were given, so there is a curve and no answer.

    Raises IncumbentFailed, after stating it, if the very first level does not run twice.
    """
    if case.recipe.url:
        note = "The server is run by someone else and was never restarted, so repeats hold no noise of restarts."
        run.record(Noted(note=note))
    dial = str(run.journal.opened.settings.get("dial", "streams"))
    try:
        found = _measured(run, case, dial)
    except IncumbentFailed as failed:
        run.record(RunClosed(ending="failed", because=failed.message))
        raise
    because = "Measured; without limits there is no knee to find."
    if found is not None:
        event = KneeFound(dial=dial, limits=dict(case.goal.limits), knee=found)
        run.record(event)
        because = answer_in_words(event)
    run.record(RunClosed(ending="done", because=because, recipe_hash=case.recipe.digest()))
    return found


def _measured(run: Run, case: Case, dial: str) -> Knee | None:
    """Start after start until `decide` has an answer; without limits until the ladder is through."""
    rules = knee_rules_of(run.journal.opened)
    results: list[TrialResult] = []
    stage = ""
    while isinstance(step := decide(seen(results, case.goal.limits), rules), Probe):
        if step.stage == "edge" and not case.goal.limits:
            return None
        name = "search: one start a level" if step.stage == "search" else f"edge: fresh starts at {dial}={step.level}"
        if name != stage:
            stage = name
            run.watch.stage(stage, _planned(step, rules))
        results += _starts(run, case, Place(step.stage, dial, step.level, step.number), first=not results)
    return step


def _planned(step: Probe, rules: KneeRules) -> int:
    """Trials of a stage: of the edge exactly, of the search about."""
    if step.stage == "edge":
        return rules.repeats
    return len(rules.ladder) or math.ceil(math.log2(rules.most / rules.first)) + 1


def _starts(run: Run, case: Case, place: Place, *, first: bool) -> list[TrialResult]:
    """One start. The run's very first one must go well: it is tried twice, and its level says nothing if it fails."""
    result = _start(run, case, place)
    if not first or result.ending == "ok":
        return [result]
    again = msgspec.structs.replace(place, number=2)
    second = _start(run, case, again)
    if second.ending != "ok":
        raise IncumbentFailed(
            f"{case.recipe.name} failed twice ({again.key}): {second.failure}: {second.log_line.rstrip('.')}.",
            f"Mend it first; the whole log is in {run.folder / second.folder / 'engine.log'}.",
        )
    return [result, second]


def _start(run: Run, case: Case, place: Place) -> TrialResult:
    load = TURNS[place.dial](case.load, place.level)
    errand = LoadErrand(case.workload, load, terms_of(case.goal, case.recipe))
    order = Order(place.key, case.recipe, errand, derived(run.settings.seed, place.key))
    return run.trial(order, tuple(case.goal.limits))
