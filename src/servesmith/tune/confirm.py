"""Confirming: each lever that screened well, in paired blocks on fresh starts and fresh prompts."""

import math
from collections.abc import Sequence
from typing import Literal

from servesmith.recipe.levers import apply, clash
from servesmith.recipe.model import Case, Lever, Recipe, Risk
from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Discarded, Kept
from servesmith.tune.blocks import Arena, Blocks, Pairing
from servesmith.tune.gating import Gatekeeper
from servesmith.tune.run import Run


class Stack:
    """The incumbent: the baseline with the levers kept so far."""

    def __init__(self, baseline: Recipe) -> None:
        self.baseline = baseline
        self.levers: tuple[Lever, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The baseline with every kept lever applied, in the order in which they were kept."""
        return self.without(None)

    def without(self, left_out: Lever | None) -> Recipe:
        """The incumbent with one lever left out."""
        recipe = self.baseline
        for lever in self.levers:
            if lever != left_out:
                recipe = apply(recipe, lever)
        return recipe


class Confirmer:
    """Puts levers to the proof, one at a time, and keeps those that pay and answer as well."""

    def __init__(self, run: Run, case: Case, arena: Arena, gate: Gatekeeper) -> None:
        self._run = run
        self._case = case
        self._arena = arena
        self._gate = gate
        self.decided: set[str] = set()
        """Levers that have been in blocks: they are not screened again."""

    def confirm(self, stack: Stack, levers: Sequence[Lever]) -> None:
        """Try each lever on the stack as it then is; `stack` grows by those that are kept."""
        for lever in levers:
            rival = next((kept for kept in stack.levers if clash(lever, kept, stack.baseline.engine)), None)
            if rival is not None:
                self._discard(lever, "confirm", f"cannot be combined with {rival.name}, which is kept")
            else:
                self.one(stack, lever)

    def one(self, stack: Stack, lever: Lever, replaces: Sequence[Lever] = ()) -> None:
        """Blocks against the incumbent, then the gate. A kept lever takes the place of those that it `replaces`."""
        if not self._arena.affords(self._run.settings.looks[0], []):
            self._discard(lever, "budget", "the budget does not hold its blocks and the proof after them")
            return
        self.decided.add(lever.name)
        incumbent = stack.recipe
        candidate = apply(incumbent, lever)
        key = f"confirm/{incumbent.digest()[:6]}/{lever.name}"
        blocks = self._arena.until_verdict(Pairing(key, incumbent, candidate, lever.secondary))
        self._run.record(
            Decided(
                stage="confirm",
                subject=lever.name,
                verdict=blocks.verdict,
                trials=blocks.trials,
                secondary=blocks.secondary,
            )
        )
        because = self._pays(lever, blocks)
        if not because:
            self._discard(lever, "confirm", why_not(blocks, self._case.goal.minimum_gain))
            return
        gated = self._gate.judge(lever.name, candidate, lever.risk)
        if not gated.passed:
            self._discard(lever, "gate", gated.because)
            return
        self._grow(stack, lever, candidate, replaces)
        definition = lever.model_dump(mode="json") if replaces else {}
        self._run.record(Kept(lever=lever.name, because=because, definition=definition))

    def _grow(self, stack: Stack, lever: Lever, candidate: Recipe, replaces: Sequence[Lever]) -> None:
        """Put it on the stack so that the stack is exactly what was measured and gated."""
        before = stack.levers
        stack.levers = (*(kept for kept in before if kept not in replaces), lever)
        if stack.recipe != candidate:
            stack.levers = (*before, lever)
            return
        for old in replaces:
            self._discard(old, "confirm", f"{lever.name} takes its place")

    def _pays(self, lever: Lever, blocks: Blocks) -> str:
        """Why it is kept; empty if it is not. The estimate itself must reach the practical minimum, and a gain on a
        secondary metric counts only while the primary is not worse."""
        if blocks.failed is not None or blocks.verdict.says == "worse":
            return ""
        for verdict in (blocks.verdict, *blocks.secondary.values()):
            if verdict.says == "better" and reaches(verdict, self._case.goal.minimum_gain):
                return verdict.because
        return ""

    def _discard(self, lever: Lever, stage: Literal["confirm", "gate", "budget"], because: str) -> None:
        self._run.record(Discarded(lever=lever.name, because=because, stage=stage))


def riskiest(levers: Sequence[Lever]) -> Risk:
    """The risk class that all of these levers together have."""
    order: tuple[Risk, ...] = ("lossless", "numerics", "lossy")
    risks: list[Risk] = [lever.risk for lever in levers]
    return max(risks, key=order.index)


def reaches(verdict: Verdict, minimum_gain: float) -> bool:
    """True if the estimated effect is at least the practical minimum."""
    return verdict.effect is not None and math.log(verdict.effect.ratio) >= math.log1p(minimum_gain)


def why_not(blocks: Blocks, minimum_gain: float) -> str:
    """One sentence: why blocks did not lead to keeping."""
    if (failed := blocks.failed) is not None:
        return f"it {failed.ending} ({failed.failure}): {failed.log_line}".rstrip(": ")
    if blocks.verdict.says == "better":
        return f"better, but by less than the practical minimum of {100 * minimum_gain:.0f} %: {blocks.verdict.because}"
    return f"{blocks.verdict.says}: {blocks.verdict.because}"
