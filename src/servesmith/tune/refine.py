"""Numbers around the incumbent (slots, batch sizes, draft length): short trials propose, paired blocks decide."""

from collections.abc import Mapping

from servesmith.recipe.levers import apply
from servesmith.recipe.model import Case, Lever, Recipe, Risk, Span
from servesmith.store.decide import ratios
from servesmith.store.events import Noted, TrialResult
from servesmith.tune.confirm import Confirmer, Stack, riskiest
from servesmith.tune.run import Run
from servesmith.tune.screen import short_trial
from servesmith.tune.seeds import derived
from servesmith.tune.suggest import Suggester


class Refiner:
    """Ask for values, measure them briefly, and put the best one to the proof."""

    def __init__(self, run: Run, case: Case, confirmer: Confirmer) -> None:
        self._run = run
        self._case = case
        self._confirmer = confirmer

    def refine(self, stack: Stack) -> None:
        """Search the ranges that kept levers leave open; a winner must win in blocks like any lever."""
        spans = {path: span for lever in stack.levers for path, span in lever.spans.items()}
        if not spans:
            self._run.record(Noted(note="Refining numbers is left out: no kept lever has a range."))
        elif self._run.settings.refine_trials < 2:
            self._run.record(Noted(note="Refining numbers is left out: it is set to fewer than two trials."))
        elif (best := self._search(stack.recipe, spans, riskiest(stack.levers))) is None:
            self._run.record(Noted(note=f"Refining {', '.join(spans)} found nothing above the incumbent."))
        else:
            self._confirmer.one(stack, best)

    def _search(self, incumbent: Recipe, spans: Mapping[str, Span], risk: Risk) -> Lever | None:
        prefix = f"refine/{incumbent.digest()[:6]}"
        reference = short_trial(self._run, self._case, f"{prefix}/incumbent", incumbent, prefix)
        if reference.ending != "ok":
            return None
        suggester = Suggester(spans, derived(self._run.settings.seed, prefix), _current(incumbent, spans))
        tried: dict[str, float | None] = {str(_current(incumbent, spans)): 0.0}
        for _ in range(self._run.settings.refine_trials):
            values = suggester.ask()
            if str(values) not in tried:
                key = f"{prefix}/{_label(values)}"
                result = short_trial(self._run, self._case, key, apply(incumbent, _lever(values, spans, risk)), prefix)
                tried[str(values)] = self._score(reference, result)
            suggester.tell(values, tried[str(values)])
        best = suggester.best()
        return _lever(best.values, spans, risk) if best and best.score > 0 else None

    def _score(self, reference: TrialResult, result: TrialResult) -> float | None:
        if result.ending != "ok":
            return None
        return ratios([(reference, result)], self._case.goal.metric)[0]


def _current(recipe: Recipe, spans: Mapping[str, Span]) -> dict[str, int]:
    values = {path: recipe.flags.get(path.removeprefix("flags.")) for path in spans}
    return {path: value for path, value in values.items() if isinstance(value, int)}


def _label(values: Mapping[str, int]) -> str:
    return ",".join(f"{path.removeprefix('flags.')}={value}" for path, value in values.items())


def _lever(values: Mapping[str, int], spans: Mapping[str, Span], risk: Risk) -> Lever:
    return Lever(
        name=f"refined {_label(values)}",
        why="Found by short trials around the incumbent.",
        risk=risk,
        set=dict(values),
        spans=dict(spans),
    )
