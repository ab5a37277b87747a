"""Screening: short trials that rank. Their scores are shrunken, never reported, and never decide that a lever pays."""

import math
import random
from collections.abc import Sequence

from servesmith.errand import LoadErrand
from servesmith.measure.terms import terms_of
from servesmith.recipe.levers import apply, clash
from servesmith.recipe.model import Case, Lever, Load, Recipe
from servesmith.stats.compare import Noise
from servesmith.stats.sample import shrunken
from servesmith.store.decide import ratios
from servesmith.store.events import Discarded, Screened, TrialResult
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived
from servesmith.tune.settings import Settings
from servesmith.units import Seconds

INCUMBENT = "incumbent"
BUDGET = "the budget ended before it was screened"


class Screen:
    """Successive halving over levers, one incumbent trial a round for reference."""

    def __init__(self, run: Run, case: Case, noise: Noise) -> None:
        self._run = run
        self._case = case
        self._noise_sd = noise.sd
        # From few blocks the noise itself is uncertain, and a shorter window has more of it.
        share = short_window(case.load, run.settings) / case.load.window_s
        self._reach = 2 * noise.high / math.sqrt(min(1.0, share))

    def rank(self, incumbent: Recipe, levers: Sequence[Lever]) -> tuple[Lever, ...]:
        """The levers that may pay, best first. What is dropped is recorded with its reason."""
        scores: dict[str, list[float]] = {lever.name: [] for lever in levers}
        dropped: dict[str, str] = {}
        alive = list(levers)
        for number in range(1, self._run.settings.screen_rounds + 1):
            self._round(number, incumbent, alive, scores, dropped)
            alive = self._survivors(alive, scores, dropped, last=number == self._run.settings.screen_rounds)
        kept = self._one_per_knob(alive, scores, dropped)[: self._run.settings.confirm_most]
        for lever in alive:
            if lever not in kept and lever.name not in dropped:
                dropped[lever.name] = "ranked below the levers that go into blocks"
        self._state(scores, kept, dropped)
        return tuple(kept)

    def _round(
        self,
        number: int,
        incumbent: Recipe,
        alive: list[Lever],
        scores: dict[str, list[float]],
        dropped: dict[str, str],
    ) -> None:
        prefix = f"screen/{incumbent.digest()[:6]}/round-{number}"
        entrants: list[tuple[str, Recipe]] = [(INCUMBENT, incumbent)]
        entrants += [(lever.name, apply(incumbent, lever)) for lever in alive]
        random.Random(derived(self._run.settings.seed, prefix)).shuffle(entrants)
        results: dict[str, TrialResult] = {}
        for name, recipe in entrants:
            if name != INCUMBENT and self._run.left_s() <= 0:
                dropped[name] = BUDGET
                continue
            sound = name == INCUMBENT
            results[name] = short_trial(self._run, self._case, f"{prefix}/{name}", recipe, prefix, sound=sound)
        reference = results.pop(INCUMBENT)
        for name, result in results.items():
            if result.ending != "ok":
                dropped[name] = f"{result.ending}, {result.failure}: {result.log_line}".rstrip(": ")
            else:
                scores[name].append(ratios([(reference, result)], self._case.goal.metric)[0])

    def _survivors(
        self, alive: list[Lever], scores: dict[str, list[float]], dropped: dict[str, str], *, last: bool
    ) -> list[Lever]:
        """Halve; and drop what lies so far below the minimum gain that this noise cannot explain it."""
        alive = [lever for lever in alive if lever.name not in dropped]
        floor = math.log1p(self._case.goal.minimum_gain)
        for lever in alive:
            mean = _mean(scores[lever.name])
            reach = self._reach / math.sqrt(len(scores[lever.name]))
            if mean + reach < floor:
                dropped[lever.name] = (
                    f"screened at {100 * math.expm1(mean):+.1f} %: even with the noise of a short trial "
                    f"(± {100 * reach:.1f} %) under the minimum gain of {100 * self._case.goal.minimum_gain:.0f} %"
                )
        alive = sorted(
            (lever for lever in alive if lever.name not in dropped), key=lambda lever: -_mean(scores[lever.name])
        )
        keep = len(alive) if last else max(2, (len(alive) + 1) // 2)
        for lever in alive[keep:]:
            dropped[lever.name] = "in the lower half of its screening round"
        return alive[:keep]

    def _one_per_knob(self, alive: list[Lever], scores: dict[str, list[float]], dropped: dict[str, str]) -> list[Lever]:
        """Of levers that exclude each other (values of one knob) only the best goes on."""
        kept: list[Lever] = []
        for lever in sorted(alive, key=lambda lever: -_mean(scores[lever.name])):
            rival = next((other for other in kept if clash(lever, other, self._case.recipe.engine)), None)
            if rival is None:
                kept.append(lever)
            else:
                dropped[lever.name] = f"{rival.name} screened better, and only one of the two can be set"
        return kept

    def _state(self, scores: dict[str, list[float]], kept: Sequence[Lever], dropped: dict[str, str]) -> None:
        means = {name: _mean(values) for name, values in scores.items() if values}
        shrunk = shrunken(means, self._noise_sd)
        self._run.record(Screened(scores=shrunk, kept=tuple(lever.name for lever in kept), dropped=dropped))
        for name, because in dropped.items():
            stage = "budget" if because == BUDGET else "screen"
            self._run.record(Discarded(lever=name, because=because, stage=stage))


def short_window(load: Load, settings: Settings) -> Seconds:
    """Window of a trial that only ranks."""
    return settings.screen_window_s or load.window_s / 2


def short_trial(run: Run, case: Case, key: str, recipe: Recipe, seed_name: str, *, sound: bool = False) -> TrialResult:
    """A trial with a shortened window: good for ranking and for nothing else. `sound`: it must run."""
    load = case.load.model_copy(update={"window_s": short_window(case.load, run.settings)})
    errand = LoadErrand(case.workload, load, terms_of(case.goal, recipe))
    order = Order(key, recipe, errand, derived(run.settings.seed, seed_name))
    needs = [case.goal.metric]
    return run.sound_trial(order, needs) if sound else run.trial(order, needs)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
