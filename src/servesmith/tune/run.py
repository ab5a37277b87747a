"""One run: trials remembered by key, decisions remembered in order. Resuming is running again.

The loop above is ordinary straight code. It asks for trials by key and states its decisions; what the journal
already holds is given back instead of measured again, and a decision that is stated again must be the one that
was recorded. So a run that was killed anywhere goes on with nothing lost but the trial that was under way, and
no decision can silently change.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from servesmith.errors import EvidenceError, MachineError, ServesmithError
from servesmith.store.events import (
    Discarded,
    Event,
    Resumed,
    RunClosed,
    RunOpened,
    TrialEnded,
    TrialResult,
    TrialStarted,
)
from servesmith.store.journal import Journal
from servesmith.store.replay import RESUMABLE
from servesmith.store.watch import Watcher
from servesmith.trial import Order
from servesmith.tune.settings import Settings

Clock = Callable[[], str]
"""Wall clock as ISO 8601 text, for people."""

AGAIN = "-again"
"""Ends the key of a trial that repeats a failed one."""
_OUR_FAILURES = ("too-few-prompts",)
"""Failures of the measuring alone: they say nothing about the recipe, so any trial is repeated once for them."""
GATE_ARMS = 3
"""Trials of a gate: the baseline, the baseline restarted, the candidate."""
_BOOKKEEPING = (RunOpened, TrialStarted, TrialEnded, Resumed)
"""Events that are no decisions of the loop."""


class IncumbentFailed(MachineError):
    """What must run (the baseline, the incumbent) failed twice in a row: nothing can be compared with it."""


class Executor(Protocol):
    """Whoever can run a trial: this host, a virtual engine, a cluster."""

    def run(self, order: Order, folder: Path, watch: Watcher) -> TrialResult:
        """Run it to its end; a failure is a result, not an exception."""
        ...


class Run:
    """A journal with an executor: the only way in which the loop touches the world."""

    def __init__(self, journal: Journal, executor: Executor, watch: Watcher, settings: Settings, clock: Clock) -> None:
        self.journal = journal
        self.folder = journal.folder
        self.settings = settings
        self.watch = watch
        self._executor = executor
        self._clock = clock
        self._trials = {event.result.key: event.result for event in journal.events if isinstance(event, TrialEnded)}
        self._decided = [event for event in journal.events if not isinstance(event, _BOOKKEEPING)]
        self._stated = 0
        """How many of the recorded decisions the loop has stated again."""
        self._stated_events: list[Event] = []
        self._used: dict[str, TrialResult] = {}

    @property
    def shared(self) -> str:
        """Who else measures on this machine as the run begins or goes on; empty if nobody does."""
        opened = [event for event in self.journal.events if isinstance(event, RunOpened | Resumed)]
        return opened[-1].shared if opened else ""

    @property
    def spent_s(self) -> float:
        """Seconds of trials that the loop has used so far; the same on replay, so budget decisions are too."""
        return sum(result.seconds for result in self._used.values())

    @property
    def cut_by_budget(self) -> bool:
        """True if a lever was given up because the budget would not hold it."""
        return any(isinstance(event, Discarded) and event.stage == "budget" for event in self._stated_events)

    @property
    def overrun(self) -> str:
        """One sentence if trials took longer than the budget; empty if they did not, or there is none."""
        budget, spent = self.settings.budget_s, self.spent_s
        if not budget or spent <= budget:
            return ""
        return (
            f"The budget of {budget:.0f} s was overrun: trials took {spent:.0f} s. What a result cannot do without "
            "(the noise, a screening's reference, the proof and its gate) is measured whatever it costs."
        )

    @property
    def trial_s(self) -> float:
        """Mean seconds of a trial so far."""
        return self.spent_s / len(self._used) if self._used else 0.0

    def left_s(self) -> float:
        """Seconds of budget that the search may still spend: what the proof and its gate will cost is kept back.

        Infinite without a budget; without a proof to come nothing is kept back. Counted in recorded seconds of trials,
        so that a replay decides alike.
        """
        if not self.settings.budget_s:
            return float("inf")
        blocks = self.settings.proof_blocks
        proof = (2 * blocks + GATE_ARMS) * self.trial_s if blocks else 0.0
        return self.settings.budget_s - self.spent_s - proof

    def recorded(self, key: str) -> bool:
        """True if the journal holds this trial, so that it will not be measured again."""
        return key in self._trials

    def trial(self, order: Order, needs: Sequence[str] = ()) -> TrialResult:
        """The result of this trial: from the journal if it is there, else measured now and recorded.

        A trial without a metric that the decision `needs` counts as failed: too little came to compute it. One that
        failed by the measuring alone is repeated once, under a key of its own.
        """
        result = self._recorded(order, needs)
        if result.failure in _OUR_FAILURES and not order.key.endswith(AGAIN):
            result = self._recorded(_again(order), needs)
        return result

    def _recorded(self, order: Order, needs: Sequence[str]) -> TrialResult:
        result = self._trials.get(order.key)
        if result is None:
            result = self._measure(order)
        elif result.recipe_hash != order.recipe.digest():
            raise EvidenceError(
                str(self.journal.path),
                f"trial {order.key} was recorded for recipe {result.recipe_hash}, not {order.recipe.digest()}.",
                "The recipe or the levers were changed since; start a new run.",
            )
        self._used[order.key] = result
        missing = [metric for metric in needs if metric not in result.metrics]
        if result.ending == "ok" and missing:
            line = f"the window gave no {missing[0]}: lengthen it"
            return msgspec.structs.replace(result, ending="failed", failure="requests-failed", log_line=line)
        return result

    def sound_trial(self, order: Order, needs: Sequence[str] = ()) -> TrialResult:
        """A trial of what must run: one failure may be chance and is tried again under a key of its own.

        Raises IncumbentFailed on the second. A lever is never discarded because its opponent failed.
        """
        result = self.trial(order, needs)
        if result.ending != "ok":
            result = self.trial(_again(order), needs)
        if result.ending != "ok":
            raise IncumbentFailed(
                f"{order.recipe.name} failed twice ({order.key}): {result.failure}: {result.log_line}",
                f"Mend it first; the whole log is in {self.folder / result.folder / 'engine.log'}.",
            )
        return result

    def _measure(self, order: Order) -> TrialResult:
        self.watch.trial_started(order.key)
        self.journal.append(TrialStarted(key=order.key, at=self._clock()))
        result = self._executor.run(order, self.folder, self.watch)
        self.record_trial(result)
        return result

    def record_trial(self, result: TrialResult) -> None:
        """Put a finished trial into the journal."""
        event = TrialEnded(result=result)
        self.journal.append(event)
        self._trials[result.key] = result
        self.watch.event(event)

    def record(self, event: Event) -> None:
        """State a decision. On replay it must equal what was recorded."""
        if self._stated < len(self._decided):
            before = self._decided[self._stated]
            if msgspec.json.encode(before) != msgspec.json.encode(event):
                raise EvidenceError(
                    str(self.journal.path),
                    f"replaying gives {event!r} where the journal says {before!r}.",
                    "The run was made by another version or its files were changed; start a new run.",
                )
        else:
            self.journal.append(event)
        self._stated += 1
        self._stated_events.append(event)
        self.watch.event(event)

    def broke_off(self, error: ServesmithError) -> None:
        """Close a run that one of our errors ended, unless it was closed or can be resumed.

        What cannot be written any more stays open: the error that is on its way says more than a second one.
        """
        closed = any(isinstance(event, RunClosed) for event in self._stated_events)
        if closed or self.journal.opened.verb in RESUMABLE:
            return
        with suppress(MachineError):
            self.record(RunClosed(ending="failed", because=str(error)))

    def results(self, keys: Iterable[str]) -> list[TrialResult]:
        """Recorded results, in the order of the keys."""
        return [self._trials[key] for key in keys]


def _again(order: Order) -> Order:
    return msgspec.structs.replace(order, key=f"{order.key}{AGAIN}")
