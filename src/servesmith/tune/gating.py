"""The gate inside a run: the baseline answers twice (its own agreement after a restart), each candidate once."""

from pathlib import Path

import msgspec

from servesmith.measure.answers import ANSWERS, GREEDY, read_sheets
from servesmith.quality.errand import QualityErrand
from servesmith.quality.gate import gate_rules, judge
from servesmith.quality.greedy import agreement
from servesmith.recipe.model import Case, Quality, Recipe, Risk
from servesmith.store.events import Gated, TrialResult
from servesmith.store.gates import discordance
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived


class Gatekeeper:
    """Judges recipes against the run's baseline, always the baseline, so that losses cannot add up unseen."""

    def __init__(self, run: Run, case: Case) -> None:
        self._run = run
        self._case = case
        self._passed: dict[str, Gated] = {}

    def judge(self, subject: str, recipe: Recipe, risk: Risk) -> Gated:
        """Ask the baseline, the baseline restarted and the recipe the same; state and give the decision.

        A pass at least as strong for this very recipe hash is not asked for again.
        """
        known = self._passed.get(recipe.digest())
        if known is not None and (risk == "lossless" or known.strength != "lossless"):
            gated = msgspec.structs.replace(known, subject=subject)
        else:
            gated = self._asked(subject, recipe, risk)
        self._run.record(gated)
        if gated.passed:
            self._passed[recipe.digest()] = gated
        return gated

    def _asked(self, subject: str, recipe: Recipe, risk: Risk) -> Gated:
        self._run.watch.stage("gate: the same questions to both", 3)
        name = f"gate/{risk}"
        asked = (("A", self._case.recipe), ("A-restarted", self._case.recipe), (f"B-{recipe.digest()[:6]}", recipe))
        results = [self._trial(f"{name}/{arm}", of, risk) for arm, of in asked]
        keys = tuple(result.key for result in results)
        bad = next((result for result in results if result.ending != "ok"), None)
        if bad is not None:
            because = f"{bad.key} {bad.ending} ({bad.failure}): {bad.log_line}".rstrip(": ")
            return Gated(
                subject=subject, recipe_hash=recipe.digest(), passed=False, tasks=(), greedy=None, because=because,
                trials=keys, strength=risk,
            )  # fmt: skip
        return self._judged(subject, recipe, risk, results)

    def _judged(self, subject: str, recipe: Recipe, risk: Risk, results: list[TrialResult]) -> Gated:
        a, again, b = (read_sheets(self._folder(result) / ANSWERS) for result in results)
        texts = [_texts(self._folder(result)) for result in results]
        rules = gate_rules(self._quality(), discordance(a, again))
        gated = judge(subject, recipe.digest(), (a, b), rules, agreement(texts[0], texts[2], texts[1]))
        return msgspec.structs.replace(gated, trials=tuple(result.key for result in results), strength=risk)

    def _trial(self, key: str, recipe: Recipe, risk: Risk) -> TrialResult:
        settings = self._run.settings
        errand = QualityErrand(self._quality(), risk, self._case.load.streams, settings.greedy_prompts)
        return self._run.trial(Order(key, recipe, errand, derived(settings.seed, f"gate/{risk}")))

    def _quality(self) -> Quality:
        items = self._run.settings.quality_items or self._case.quality.items
        return self._case.quality.model_copy(update={"items": items})

    def _folder(self, result: TrialResult) -> Path:
        return self._run.folder / result.folder


def _texts(folder: Path) -> list[str | None]:
    return msgspec.json.decode((folder / GREEDY).read_bytes(), type=list[str | None])
