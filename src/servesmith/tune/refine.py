"""Numbers around the incumbent (slots, batch sizes, draft length): short trials propose, paired blocks decide."""

from collections.abc import Mapping, Sequence

from servesmith.recipe.levers import apply
from servesmith.recipe.model import Case, Lever, Recipe, Span
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
        owners = [lever for lever in stack.levers if lever.spans]
        spans = {path: span for lever in owners for path, span in lever.spans.items()}
        if not spans:
            self._run.record(Noted(note="Refining numbers is left out: no kept lever has a range."))
        elif self._run.settings.refine_trials < 2:
            self._run.record(Noted(note="Refining numbers is left out: it is set to fewer than two trials."))
        elif (best := self._search(stack, owners, spans)) is None:
            self._run.record(Noted(note=f"Refining {', '.join(spans)} found nothing above the incumbent."))
        else:
            self._confirmer.one(stack, best, replaces=owners)

    def _search(self, stack: Stack, owners: Sequence[Lever], spans: Mapping[str, Span]) -> Lever | None:
        incumbent = stack.recipe
        prefix = f"refine/{incumbent.digest()[:6]}"
        reference = short_trial(self._run, self._case, f"{prefix}/incumbent", incumbent, prefix, sound=True)
        suggester = Suggester(spans, derived(self._run.settings.seed, prefix), _current(incumbent, spans))
        tried: dict[str, float | None] = {str(_current(incumbent, spans)): 0.0}
        for _ in range(self._run.settings.refine_trials):
            if self._run.left_s() <= 0:
                break
            values = suggester.ask()
            if str(values) not in tried:
                key = f"{prefix}/{_label(values)}"
                result = short_trial(self._run, self._case, key, apply(incumbent, _lever(values, owners)), prefix)
                tried[str(values)] = self._score(reference, result)
            suggester.tell(values, tried[str(values)])
        best = suggester.best()
        return _lever(best.values, owners) if best and best.score > 0 else None

    def _score(self, reference: TrialResult, result: TrialResult) -> float | None:
        if result.ending != "ok":
            return None
        return ratios([(reference, result)], self._case.goal.metric)[0]


def _current(recipe: Recipe, spans: Mapping[str, Span]) -> dict[str, int]:
    values = {path: recipe.flags.get(path.removeprefix("flags.")) for path in spans}
    return {path: value for path, value in values.items() if isinstance(value, int)}


def _label(values: Mapping[str, int]) -> str:
    return ",".join(f"{path.removeprefix('flags.')}={value}" for path, value in values.items())


def _lever(values: Mapping[str, int], owners: Sequence[Lever]) -> Lever:
    """The owners as one lever with these numbers: everything else that they set stays."""
    return Lever(
        name=f"refined-{_label(values)}",
        why=f"{', '.join(owner.name for owner in owners)} with numbers found by short trials.",
        risk=riskiest(owners),
        set={path: value for owner in owners for path, value in owner.set.items()} | dict(values),
        excludes=tuple(name for owner in owners for name in owner.excludes),
        secondary=next((owner.secondary for owner in owners if owner.secondary), ""),
    )
