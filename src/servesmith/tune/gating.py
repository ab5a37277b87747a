"""The gate inside a run: the baseline answers twice (its own agreement after a restart), each candidate once."""

from pathlib import Path

import msgspec

from servesmith.measure.answers import ANSWERS, GREEDY, read_sheets
from servesmith.quality.errand import QualityErrand
from servesmith.quality.gate import changes_answers, gate_rules, judge, strength
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
        self._last: dict[str, Gated] = {}

    def judge(self, subject: str, recipe: Recipe, risk: Risk) -> Gated:
        """Ask the baseline, the baseline restarted and the recipe the same; state and give the decision.

        A change that calls itself lossless but changes greedy answers, where a restart changes fewer, is asked again as
        strongly as one that changes numerics.
        """
        gated = self._stated(subject, recipe, risk, f"gate/{risk}")
        if gated.passed and risk == "lossless" and changes_answers(gated.greedy):
            gated = self._stated(subject, recipe, "numerics", "gate/numerics")
        return gated

    def judge_final(self, recipe: Recipe, risk: Risk, *, fresh: bool) -> Gated:
        """The gate of what is to be published: on items that no gate of this run has asked, if `fresh`.

        Without `fresh` a pass of this very recipe is taken over: for runs in which one lever at most was gated, once.
        """
        known = self._last.get(recipe.digest())
        if fresh or known is None or not known.passed:
            return self._stated("final", recipe, risk, f"gate/final/{risk}")
        gated = msgspec.structs.replace(known, subject="final")
        self._run.record(gated)
        return gated

    def _stated(self, subject: str, recipe: Recipe, risk: Risk, name: str) -> Gated:
        gated = self._asked(subject, recipe, risk, name)
        self._run.record(gated)
        self._last[recipe.digest()] = gated
        return gated

    def _asked(self, subject: str, recipe: Recipe, risk: Risk, name: str) -> Gated:
        self._run.watch.stage("gate: the same questions to both", 3)
        orders = [self._order(f"{name}/{arm}", self._case.recipe, risk, name) for arm in ("A", "A-restarted")]
        results = [self._run.sound_trial(order) for order in orders]
        answered = self._run.trial(self._order(f"{name}/B-{recipe.digest()[:6]}", recipe, risk, name))
        keys = tuple(result.key for result in (*results, answered))
        if answered.ending != "ok":
            because = f"it {answered.ending} ({answered.failure}): {answered.log_line}".rstrip(": ")
            return Gated(
                subject=subject, recipe_hash=recipe.digest(), passed=False, tasks=(), greedy=None, because=because,
                trials=keys, strength=risk,
            )  # fmt: skip
        gated = self._judged(subject, recipe, [*results, answered])
        return msgspec.structs.replace(gated, trials=keys, strength=risk)

    def _judged(self, subject: str, recipe: Recipe, results: list[TrialResult]) -> Gated:
        a, again, b = (read_sheets(self._folder(result) / ANSWERS) for result in results)
        texts = [_texts(self._folder(result)) for result in results]
        rules = gate_rules(self._quality(), discordance(a, again))
        return judge(subject, recipe.digest(), (a, b), rules, agreement(texts[0], texts[2], texts[1]))

    def _order(self, key: str, recipe: Recipe, risk: Risk, name: str) -> Order:
        prompts = strength(risk, allowed=True).greedy_prompts
        errand = QualityErrand(self._quality(), risk, self._case.load.streams, prompts)
        return Order(key, recipe, errand, derived(self._run.settings.seed, name))

    def _quality(self) -> Quality:
        items = self._run.settings.quality_items or self._case.quality.items
        return self._case.quality.model_copy(update={"items": items})

    def _folder(self, result: TrialResult) -> Path:
        return self._run.folder / result.folder


def _texts(folder: Path) -> list[str | None]:
    return msgspec.json.decode((folder / GREEDY).read_bytes(), type=list[str | None])
