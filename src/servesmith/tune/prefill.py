"""`prefill`: how many prompt tokens a second a server reads."""

from servesmith.probing import PrefillErrand
from servesmith.recipe.model import Case
from servesmith.store.events import Ranged, RunClosed, TrialResult
from servesmith.store.ranged import range_in_words, ranged
from servesmith.trial import Order
from servesmith.tune.run import Run
from servesmith.tune.seeds import derived
from servesmith.units import Seconds

LONGEST_S: Seconds = 600.0
"""A prompt may wait so long for its turn, whatever the limit of a load is."""


def prefill(run: Run, case: Case) -> Ranged | None:
    """So many starts, each with fresh prompts; the shape stands in the journal's settings. None: a trial failed."""
    shape = run.journal.opened.settings
    prompts, concurrency, repeats = (int(shape[name]) for name in ("prompts", "concurrency", "repeats"))
    errand = PrefillErrand(case.workload, prompts, concurrency, max(LONGEST_S, case.load.first_token_s))
    arm = f"{prompts}x{case.workload.prompt_tokens}"
    run.watch.stage(f"prefill: {arm} at {concurrency} at a time", repeats)
    results: list[TrialResult] = []
    for number in range(1, repeats + 1):
        key = f"prefill/{arm}/{number}"
        results.append(run.trial(Order(key, case.recipe, errand, derived(run.settings.seed, key))))
        if results[-1].ending != "ok":
            because = f"{results[-1].key} {results[-1].failure}: {results[-1].log_line}"
            run.record(RunClosed(ending="failed", because=because))
            return None
    event = ranged(results)
    run.record(event)
    rate = range_in_words(event.arms[arm]["prefill_tokens_per_s"], "prompt tokens/s")
    because = f"{rate}, {prompts} prompts of {case.workload.prompt_tokens} tokens, {concurrency} at a time."
    run.record(RunClosed(ending="done", because=because, recipe_hash=case.recipe.digest()))
    return event
