"""What is each kept lever worth? Leave one out of the final stack; drop what is shown to be worth nothing."""

import math
from collections.abc import Sequence

from servesmith.recipe.model import Case, Lever
from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Discarded, Event, Kept, Noted, RunClosed
from servesmith.tune.blocks import Arena, Blocks, Pairing
from servesmith.tune.confirm import Stack
from servesmith.tune.run import Run


class Ablation:
    """Leave-one-out over the stack. A is the stack without the lever, B the whole stack: the ratio is its worth."""

    def __init__(self, run: Run, case: Case, arena: Arena) -> None:
        self._run = run
        self._case = case
        self._arena = arena

    def prune(self, stack: Stack) -> None:
        """Drop levers shown to be inert, one at a time, least worth first, testing the rest again after each drop."""
        if len(stack.levers) < 2:
            self._run.record(Noted(note="With fewer than two kept levers the proof blocks are the ablation."))
            return
        while len(stack.levers) > 1:
            worths = {lever.name: self.worth(stack, lever) for lever in stack.levers}
            inert = [lever for lever in stack.levers if _shown_inert(worths[lever.name])]
            if not inert:
                self._mark(stack, worths)
                return
            least = min(inert, key=lambda lever: _log_effect(worths[lever.name].verdict))
            stack.levers = tuple(lever for lever in stack.levers if lever != least)
            self._run.record(Discarded(lever=least.name, because=_because(worths[least.name].verdict), stage="ablate"))

    def worth(self, stack: Stack, lever: Lever) -> Blocks:
        """Blocks of the stack without the lever against the whole stack."""
        whole = stack.recipe
        key = f"ablate/{whole.digest()[:6]}/{lever.name}"
        blocks = self._arena.until_verdict(Pairing(key, stack.without(lever), whole, lever.secondary, sound=("B",)))
        self._run.record(
            Decided(
                stage="ablate",
                subject=lever.name,
                verdict=blocks.verdict,
                trials=blocks.trials,
                secondary=blocks.secondary,
            )
        )
        return blocks

    def _mark(self, stack: Stack, worths: dict[str, Blocks]) -> None:
        for lever in stack.levers:
            worth = worths[lever.name]
            if not _pays(worth):
                because = f"its worth is not settled: {worth.verdict.because}"
                self._run.record(Kept(lever=lever.name, because=because, undecided=True))


def kept_levers(events: Sequence[Event], known: Sequence[Lever]) -> tuple[Lever, ...]:
    """The levers of a finished run's final recipe, in the order in which they were kept."""
    closed = next((event for event in reversed(events) if isinstance(event, RunClosed)), None)
    by_name = {lever.name: lever for lever in known}
    found = [event.definition for event in events if isinstance(event, Kept) and event.definition]
    by_name |= {lever.name: lever for lever in map(Lever.model_validate, found)}
    return tuple(by_name[name] for name in (closed.levers if closed else ()) if name in by_name)


def ablate_stack(run: Run, case: Case, levers: Sequence[Lever]) -> None:
    """The worth of each lever within the stack, without dropping any; for a run of its own."""
    stack = Stack(case.recipe)
    stack.levers = tuple(levers)
    ablation = Ablation(run, case, Arena(run, case))
    run.watch.stage("ablate: leave one out", 2 * len(levers) * run.settings.looks[0])
    for lever in levers:
        ablation.worth(stack, lever)
    names = tuple(lever.name for lever in levers)
    run.record(RunClosed(ending="done", because="Measured.", levers=names, recipe_hash=stack.recipe.digest()))


def _shown_inert(worth: Blocks) -> bool:
    """`same` means that the upper bound of its worth lies under the practical minimum; `worse` that it harms.

    A lever without which the rest does not run is not inert, nor is one that pays on its declared secondary metric.
    """
    return worth.failed is None and worth.verdict.says in ("same", "worse") and not _pays(worth)


def _pays(worth: Blocks) -> bool:
    return any(verdict.says == "better" for verdict in (worth.verdict, *worth.secondary.values()))


def _because(worth: Verdict) -> str:
    return f"leaving it out of the final recipe is shown to be no loss: {worth.because}"


def _log_effect(verdict: Verdict) -> float:
    return math.log(verdict.effect.ratio) if verdict.effect else 0.0
