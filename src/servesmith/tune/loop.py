"""`tune`: from a recipe to a faster one. Each step states its decisions in the journal."""

from collections.abc import Sequence

import msgspec

from servesmith.engine.base import Facts
from servesmith.measure.records import Metric
from servesmith.recipe.model import Case, Lever, Recipe
from servesmith.stats.compare import Noise
from servesmith.store.events import Noted, RunClosed
from servesmith.trial import read_facts
from servesmith.tune.ablate import Ablation
from servesmith.tune.blocks import Arena
from servesmith.tune.confirm import Confirmer, Stack
from servesmith.tune.findings import findings
from servesmith.tune.gating import Gatekeeper
from servesmith.tune.noise import measure_noise
from servesmith.tune.place import Place
from servesmith.tune.propose import propose
from servesmith.tune.prove import Proof, prove
from servesmith.tune.refine import Refiner
from servesmith.tune.run import IncumbentFailed, Run
from servesmith.tune.screen import Screen


class Tuned(msgspec.Struct, frozen=True):
    """What tuning came to."""

    recipe: Recipe
    levers: tuple[str, ...]
    proof: Proof | None
    """None: no lever was kept, so there was nothing to prove."""

    @property
    def refuted(self) -> bool:
        """True if levers were kept and the final recipe then failed its proof or its gate."""
        return self.proof is not None and bool(self.proof.against)


def tune(run: Run, case: Case, levers: Sequence[Lever], place: Place) -> Tuned:
    """The loop: noise, baseline, propose, screen, confirm with gate, refine, ablate, prove.

    Raises IncumbentFailed, after stating it, if the baseline or the incumbent does not run.
    """
    try:
        return _tune(run, case, levers, place)
    except IncumbentFailed as failed:
        run.record(RunClosed(ending="failed", because=failed.message))
        raise


def _tune(run: Run, case: Case, levers: Sequence[Lever], place: Place) -> Tuned:
    arena, gate, stack = Arena(run, case), Gatekeeper(run, case), Stack(case.recipe)
    confirmer = Confirmer(run, case, arena, gate)
    if run.settings.shortened:
        run.record(Noted(note=run.settings.shortened))
    run.watch.stage("noise: the baseline against itself", 2 * run.settings.noise_blocks)
    noise = measure_noise(run, arena, case.recipe)
    for _ in range(run.settings.rounds):
        if not _round(run, case, levers, place, Search(stack, confirmer, noise)):
            break
    run.watch.stage("refine: numbers around the incumbent", run.settings.refine_trials)
    Refiner(run, case, confirmer).refine(stack)
    run.watch.stage("ablate: leave one out", 2 * len(stack.levers) * run.settings.looks[0])
    Ablation(run, case, arena).prune(stack)
    run.watch.stage("prove: fresh starts, their number fixed beforehand", 2 * run.settings.proof_blocks)
    return _closed(run, stack, prove(run, arena, gate, stack))


class Search(msgspec.Struct, frozen=True):
    """What one round of the search works on."""

    stack: Stack
    confirmer: Confirmer
    noise: Noise


def _round(run: Run, case: Case, levers: Sequence[Lever], place: Place, search: Search) -> bool:
    """Propose, screen and confirm on the stack as it is. True if it grew: early losers then deserve a second look."""
    stack, before = search.stack, len(search.stack.levers)
    tried = {lever.name for lever in stack.levers} | search.confirmer.decided
    open_levers = [lever for lever in levers if lever.name not in tried]
    candidates = propose(run, stack.recipe, open_levers, place, findings(case, *_baseline(run)))
    if not candidates:
        return False
    run.watch.stage("screen: short trials that rank", (len(candidates) + 1) * run.settings.screen_rounds)
    ranked = Screen(run, case, search.noise).rank(stack.recipe, candidates)
    run.watch.stage("confirm: paired blocks", 2 * len(ranked) * run.settings.looks[0])
    search.confirmer.confirm(stack, ranked)
    return len(stack.levers) > before


def _baseline(run: Run) -> tuple[Facts, dict[str, Metric]]:
    (first,) = run.results(["noise/block-1/A"])
    return read_facts(run.folder / first.folder), first.metrics


def _closed(run: Run, stack: Stack, proof: Proof | None) -> Tuned:
    """The end: the final recipe if its proof and its gate hold, else the baseline with the reason."""
    if run.overrun:
        run.record(Noted(note=run.overrun))
    if proof is None or proof.against:
        because = f"The final recipe is not proven: {proof.against}" if proof else "No lever was shown to pay."
        ending = "budget" if run.cut_by_budget else "done"
        run.record(RunClosed(ending=ending, because=because, recipe_hash=stack.recipe.digest()))
        return Tuned(stack.baseline, (), proof)
    names = tuple(lever.name for lever in stack.levers)
    final = stack.recipe
    ending = "budget" if run.cut_by_budget else "done"
    run.record(RunClosed(ending=ending, because=proof.verdict.because, levers=names, recipe_hash=final.digest()))
    return Tuned(final, names, proof)
