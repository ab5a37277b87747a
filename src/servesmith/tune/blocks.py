"""Paired blocks: A and B each started once, in random order, with the same prompts, until the rules say stop."""

from collections.abc import Iterator, Sequence

import msgspec

from servesmith.errand import LoadErrand
from servesmith.measure.terms import terms_of
from servesmith.recipe.model import Case, Recipe
from servesmith.stats.compare import arm_orders
from servesmith.stats.sequential import next_look
from servesmith.stats.verdict import Verdict
from servesmith.store.decide import Pair, pairs_of, secondary_verdict, verdict_of
from servesmith.store.events import Arm, TrialResult
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived


class Pairing(msgspec.Struct, frozen=True):
    """What is compared: two recipes, and the prefix of the keys of its trials."""

    key: str
    a: Recipe
    b: Recipe
    secondary: str = ""
    """A metric that the change under test declared beforehand."""
    sound: tuple[Arm, ...] = ("A",)
    """Arms that must run: their failure says nothing about the change under test."""


class Blocks(msgspec.Struct, frozen=True):
    """Finished blocks and the verdicts from them. `failed`: the arm under test could not be measured."""

    verdict: Verdict
    trials: tuple[str, ...]
    secondary: dict[str, Verdict]
    failed: TrialResult | None = None
    cut: bool = False
    """True if the budget ended them before a verdict."""


class Arena:
    """Runs blocks of one case in one run."""

    def __init__(self, run: Run, case: Case) -> None:
        self._run = run
        self._case = case

    def until_verdict(self, pairing: Pairing) -> Blocks:
        """Blocks until a look says better, worse or same, the last look is past, or the budget ends."""
        rules = self._run.settings.rules()
        pairs: list[Pair] = []
        if not self.affords(rules.looks[0], pairs):
            return self._cut(pairing, pairs)
        for pair in self._blocks(pairing, max(rules.looks)):
            if _broken(pair):
                return self._ended(pairing, pairs, pair)
            pairs.append(pair)
            look = next_look(len(pairs), rules)
            settled = verdict_of(pairs, self._case.goal, rules).says != "undecided"
            if settled or look is None:
                break
            if not self.affords(look - len(pairs), pairs):
                return self._cut(pairing, pairs)
        return self._ended(pairing, pairs)

    def fixed(self, pairing: Pairing, blocks: int) -> Blocks:
        """Exactly so many blocks and one look at the end: for proofs, ablations and the noise."""
        pairs: list[Pair] = []
        for pair in self._blocks(pairing, blocks):
            if _broken(pair):
                return self._ended(pairing, pairs, pair, planned=blocks)
            pairs.append(pair)
        return self._ended(pairing, pairs, planned=blocks)

    def judged(self, trials: Sequence[str]) -> Verdict:
        """The verdict of finished blocks, by the keys of their trials."""
        results = dict(zip(trials, self._run.results(trials), strict=True))
        pairs = pairs_of(trials, results)
        return verdict_of(pairs, self._case.goal, self._run.settings.rules(), planned=len(pairs))

    def affords(self, blocks: int, pairs: list[Pair]) -> bool:
        """True if the budget holds so many more blocks, by the cost of those that are done."""
        each = sum(a.seconds + b.seconds for a, b in pairs) / len(pairs) if pairs else 2 * self._run.trial_s
        return self._run.left_s() >= each * blocks

    def trial(self, pairing: Pairing, number: int, arm: Arm) -> TrialResult:
        """One arm of one block. Both arms draw the same prompts; every block draws new ones."""
        block = f"{pairing.key}/block-{number}"
        recipe = pairing.a if arm == "A" else pairing.b
        errand = LoadErrand(self._case.workload, self._case.load, terms_of(self._case.goal, recipe))
        order = Order(f"{block}/{arm}", recipe, errand, derived(self._run.settings.seed, block))
        needs = [metric for metric in (self._case.goal.metric, pairing.secondary, *self._case.goal.limits) if metric]
        return self._run.sound_trial(order, needs) if arm in pairing.sound else self._run.trial(order, needs)

    def _blocks(self, pairing: Pairing, most: int) -> Iterator[Pair]:
        orders = arm_orders(most, derived(self._run.settings.seed, pairing.key))
        for number, order in enumerate(orders, start=1):
            done = {arm: self.trial(pairing, number, arm) for arm in order}
            yield done["A"], done["B"]

    def _cut(self, pairing: Pairing, pairs: list[Pair]) -> Blocks:
        return msgspec.structs.replace(self._ended(pairing, pairs), cut=True)

    def _ended(
        self, pairing: Pairing, pairs: list[Pair], bad: Pair | None = None, *, planned: int | None = None
    ) -> Blocks:
        rules = self._run.settings.rules()
        goal, metric = self._case.goal, pairing.secondary
        return Blocks(
            verdict=verdict_of(pairs, goal, rules, planned=planned),
            trials=tuple(result.key for pair in pairs for result in pair),
            secondary={metric: secondary_verdict(pairs, goal, metric, rules, planned=planned)} if metric else {},
            failed=next((result for result in bad if result.ending != "ok"), None) if bad else None,
        )


def _broken(pair: Pair) -> bool:
    return any(result.ending != "ok" for result in pair)
