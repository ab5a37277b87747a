"""What goes wrong during a tune: the opponent fails, the proof fails, the gate says no at the end."""

import msgspec
import pytest
from test_loop import events_of
from virtual import FASTER, SLOTS, case, clock, finish, lever, settings, start

from servesmith.engine.base import Failure
from servesmith.errors import MachineError
from servesmith.recipe.model import Span
from servesmith.report.index import index
from servesmith.store.events import Decided, Discarded, Gated, Kept, NoiseMeasured, Noted, RunClosed, TrialEnded
from servesmith.store.journal import read_events
from servesmith.store.watch import Silent
from servesmith.tune.open import Plan, open_run
from servesmith.tune.run import IncumbentFailed
from servesmith.tune.virtual import VirtualExecutor


class Failing:
    """The virtual engine, with planted failures by part of the trial's key, so often each."""

    def __init__(self, kind: str = "crash", **plan: int) -> None:
        self.kind = kind
        self.plan = dict(plan)
        self.real = VirtualExecutor()

    def run(self, order, folder, watch):
        result = self.real.run(order, folder, watch)
        for part, times in self.plan.items():
            if part in order.key and times > 0:
                self.plan[part] = times - 1
                failure = Failure(self.kind, "planted: segmentation fault")
                return msgspec.structs.replace(
                    result, ending="failed", failure=failure.kind, log_line=failure.log_line, metrics={}
                )
        return result


def opened_with(folder, levers, executor, **changes):
    opened = start(folder, levers, **changes)
    opened.run._executor = executor
    return opened


def test_a_reference_that_fails_once_is_tried_again(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(**{"round-1/incumbent": 1}))
    assert finish(opened).levers == ("slots-8",)


def test_a_reference_that_fails_twice_ends_the_run_and_blames_no_lever(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(**{"round-1/incumbent": 2}))
    with pytest.raises(IncumbentFailed, match="twice"):
        finish(opened)
    folder = opened.run.folder
    assert events_of(folder, Discarded) == []
    assert events_of(folder, RunClosed)[-1].ending == "failed"


def test_a_lever_is_not_blamed_when_the_measuring_alone_failed(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(kind="too-few-prompts", **{"slots-8/block-1/B": 1}))
    assert finish(opened).levers == ("slots-8",)
    again = [event.result for event in events_of(opened.run.folder, TrialEnded) if event.result.key.endswith("-again")]
    assert [(result.ending, result.key.endswith("/slots-8/block-1/B-again")) for result in again] == [("ok", True)]


def test_a_lever_that_crashes_is_not_tried_again(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(**{"slots-8/block-1/B": 1}))
    assert finish(opened).levers == ()


def test_a_baseline_that_fails_once_in_the_gate_discards_nothing(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(**{"gate/lossless/A": 1}))
    assert finish(opened).levers == ("slots-8",)


def test_a_final_recipe_that_crashes_in_its_proof_is_not_published(tmp_path):
    class OnlyInTheProof(Failing):
        def run(self, order, folder, watch):
            self.plan = {"block-5/B": 1} if order.key.startswith("prove/") else {}
            return super().run(order, folder, watch)

    opened = opened_with(tmp_path, (SLOTS,), OnlyInTheProof(), proof_blocks=6, looks=(4,))
    tuned = finish(opened)
    assert tuned.refuted
    assert tuned.levers == ()
    folder = opened.run.folder
    proof = next(event for event in events_of(folder, Decided) if event.stage == "prove")
    assert proof.verdict.says == "undecided"
    closed = events_of(folder, RunClosed)[-1]
    assert closed.levers == ()
    assert "not proven" in closed.because


def test_a_final_gate_that_says_no_publishes_nothing(tmp_path):
    harmed = SLOTS.model_copy(update={"set": {**SLOTS.set, "flags.answers-wrong": 0.02}})
    opened = start(tmp_path, (harmed,))
    opened.run._executor = Harmed()
    tuned = finish(opened)
    assert tuned.refuted
    assert events_of(opened.run.folder, RunClosed)[-1].levers == ()


class Harmed:
    """Answers go wrong only in the final gate."""

    def run(self, order, folder, watch):
        if order.key.startswith("gate/final") and "/B-" in order.key:
            flags = {**order.recipe.flags, "answers-wrong": 0.5}
            spoiled = order.recipe.model_copy(update={"flags": flags})
            result = VirtualExecutor().run(msgspec.structs.replace(order, recipe=spoiled), folder, Silent())
            return msgspec.structs.replace(result, recipe_hash=order.recipe.digest())
        return VirtualExecutor().run(order, folder, watch)


def test_the_final_gate_asks_items_that_no_gate_has_asked(tmp_path):
    opened = start(tmp_path, (SLOTS,))
    finish(opened)
    seeds = {
        event.result.key.rsplit("/", 1)[0]: event.result.seed
        for event in read_events(opened.run.folder)
        if isinstance(event, TrialEnded) and event.result.key.startswith("gate/")
    }
    assert set(seeds) == {"gate/lossless", "gate/final/numerics"}
    assert len(set(seeds.values())) == 2
    assert [event.subject for event in events_of(opened.run.folder, Gated)] == ["slots-8", "final"]


def test_a_lever_is_not_kept_for_a_secondary_while_the_primary_is_worse(tmp_path):
    trade = lever("trade", ttft_ms=5.0, gap_ms=13.0).model_copy(update={"secondary": "ttft_p50_ms"})
    opened = start(tmp_path, (trade,), screen_rounds=1)
    opened.run.settings = msgspec.structs.replace(opened.run.settings, minimum_gain=0.0)
    assert finish(opened).levers == ()


def test_refining_keeps_what_its_lever_set_besides(tmp_path):
    both = lever("both", slots=6, ttft_ms=10.0).model_copy(update={"spans": {"flags.slots": Span(low=4, high=12)}})
    opened = start(tmp_path, (both,), refine_trials=5)
    tuned = finish(opened)
    kept = events_of(opened.run.folder, Kept)
    assert kept[0].lever == "both"
    assert len(tuned.levers) == 1
    assert tuned.levers[0].startswith("refined-slots=")
    assert tuned.recipe.flags["ttft-ms"] == 10.0
    assert kept[-1].definition["set"]["flags.ttft-ms"] == 10.0
    replaced = [event for event in events_of(opened.run.folder, Discarded) if event.lever == "both"]
    assert "takes its place" in replaced[0].because


def test_a_shortened_run_says_so_first_and_can_be_resumed(tmp_path):
    from virtual import resume

    opened = start(tmp_path, (SLOTS,), shortened="The test is short.")
    finish(opened)
    folder = opened.run.folder
    assert events_of(folder, Noted)[0].note == "The test is short."
    finish(resume(folder))


def test_noise_from_a_repeated_a_a_is_of_all_blocks(tmp_path):
    plan = Plan(verb="tune", case=case(**{"noise-restart": 0.01}), settings=settings(seed=5), levers=(FASTER,))
    opened = open_run(plan, tmp_path, Silent(), clock)
    finish(opened)
    (noise,) = events_of(opened.run.folder, NoiseMeasured)
    assert len(noise.trials) in (8, 16)
    assert noise.high > noise.sd > 0


@pytest.mark.parametrize(("verb", "state"), [("bench", "failed"), ("compare", "failed"), ("gate", "failed"),
                                             ("tune", "unfinished")])  # fmt: skip
def test_a_run_that_our_error_ended_is_closed_unless_it_can_be_resumed(tmp_path, verb, state):
    plan = Plan(verb=verb, case=case(), settings=settings(), rival=case())
    opened = open_run(plan, tmp_path, Silent(), clock)
    opened.run.broke_off(MachineError("The port is taken.", "Free it."))
    opened.run.journal.close()
    (row,) = index(tmp_path)
    assert row.state == state
    assert state == "unfinished" or row.sentence == "The run failed: The port is taken. Free it."


def test_a_run_that_was_closed_is_not_closed_again(tmp_path):
    opened = opened_with(tmp_path, (SLOTS,), Failing(**{"round-1/incumbent": 2}))
    with pytest.raises(IncumbentFailed) as failed:
        finish(opened)
    opened.run.broke_off(failed.value)
    assert len(events_of(opened.run.folder, RunClosed)) == 1
