"""The whole loop on the virtual engine, where the truth is known."""

import msgspec
import pytest
from virtual import CRASH, FASTER, INERT, SLOTS, SLOWER, WRONG, case, finish, resume, start

from servesmith.errors import EvidenceError
from servesmith.store.events import (
    Decided,
    Discarded,
    Event,
    Gated,
    Kept,
    NoiseMeasured,
    Proposed,
    Resumed,
    RunClosed,
    Screened,
    TrialEnded,
    TrialStarted,
)
from servesmith.store.journal import read_events


def events_of(folder, kind):
    return [event for event in read_events(folder) if isinstance(event, kind)]


def decisions(folder) -> list[Event]:
    return [event for event in read_events(folder) if not isinstance(event, (TrialStarted, Resumed))]


def test_keeps_what_pays_and_throws_out_the_rest_with_reasons(tmp_path):
    opened = start(tmp_path, (SLOTS, SLOWER, INERT, CRASH, WRONG))
    tuned = finish(opened)
    assert tuned.levers == ("slots-8",)
    assert tuned.proof is not None
    assert tuned.proof.verdict.says == "better"
    assert tuned.proof.verdict.effect.low > 1.0
    assert tuned.proof.against == ""
    folder = opened.run.folder
    fates = {event.lever: event for event in events_of(folder, Discarded)}
    assert fates["slower"].stage == "screen"
    assert "crash" in fates["crash"].because
    assert "inert" in fates
    assert [event.lever for event in events_of(folder, Kept)] == ["slots-8"]
    assert events_of(folder, RunClosed)[-1].levers == ("slots-8",)


def test_a_lever_that_pays_but_answers_worse_is_out_at_the_gate(tmp_path):
    fast_and_wrong = SLOTS.model_copy(
        update={"name": "fast-and-wrong", "set": {**SLOTS.set, "flags.answers-wrong": 0.3}}
    )
    opened = start(tmp_path, (fast_and_wrong,))
    tuned = finish(opened)
    assert tuned.levers == ()
    assert tuned.proof is None
    (fate,) = events_of(opened.run.folder, Discarded)
    assert fate.stage == "gate"
    gated = events_of(opened.run.folder, Gated)[0]
    assert not gated.passed
    assert gated.strength == "lossless"


def test_nothing_pays_is_an_honest_end(tmp_path):
    opened = start(tmp_path, (SLOWER, INERT))
    tuned = finish(opened)
    assert tuned.levers == ()
    assert tuned.proof is None
    assert events_of(opened.run.folder, RunClosed)[-1].ending == "done"


def test_two_levers_are_ablated_one_by_one(tmp_path):
    opened = start(tmp_path, (SLOTS, FASTER))
    tuned = finish(opened)
    assert set(tuned.levers) == {"slots-8", "faster-first-token"}
    ablated = [event for event in events_of(opened.run.folder, Decided) if event.stage == "ablate"]
    assert {event.subject for event in ablated} == {"slots-8", "faster-first-token"}
    assert all(event.verdict.says == "better" for event in ablated)


def test_noise_is_measured_before_anything_is_claimed(tmp_path):
    opened = start(tmp_path, (SLOTS,))
    finish(opened)
    (noise,) = events_of(opened.run.folder, NoiseMeasured)
    assert 0.002 < noise.sd < 0.05
    assert float(noise.detectable["4"]) > float(noise.detectable["12"])


def test_screening_scores_never_decide(tmp_path):
    opened = start(tmp_path, (SLOTS,))
    finish(opened)
    folder = opened.run.folder
    screened = events_of(folder, Screened)[0]
    confirmed = [event for event in events_of(folder, Decided) if event.stage == "confirm"]
    assert screened.kept == ("slots-8",)
    assert not {key for event in confirmed for key in event.trials if key.startswith("screen")}


def test_budget_ends_the_search_not_the_run(tmp_path):
    opened = start(tmp_path, (SLOTS, FASTER), budget_s=8 * 8.0)
    tuned = finish(opened)
    assert tuned.levers == ()
    assert {event.stage for event in events_of(opened.run.folder, Discarded)} == {"budget"}


def test_a_run_that_is_run_again_states_the_same_and_measures_nothing(tmp_path):
    opened = start(tmp_path, (SLOTS, SLOWER))
    finish(opened)
    folder = opened.run.folder
    before = decisions(folder)
    again = resume(folder)
    finish(again)
    assert decisions(folder) == before
    assert sum(isinstance(event, TrialStarted) for event in read_events(folder)) == sum(
        isinstance(event, TrialEnded) for event in read_events(folder)
    )


def test_cut_anywhere_it_comes_to_the_same_end(tmp_path):
    whole = start(tmp_path / "whole", (SLOTS, SLOWER))
    finish(whole)
    want = [msgspec.json.encode(event) for event in decisions(whole.run.folder)]
    journal = (whole.run.folder / "journal.jsonl").read_bytes()
    lines = journal.splitlines(keepends=True)
    for count in range(1, len(lines), 7):
        cut = start(tmp_path / f"cut-{count}", (SLOTS, SLOWER))
        cut.run.journal.close()
        torn = lines[count][: len(lines[count]) // 2]
        for folder in (whole.run.folder / "trials").iterdir():
            (cut.run.folder / "trials").mkdir(exist_ok=True)
            target = cut.run.folder / "trials" / folder.name
            target.mkdir()
            for file in folder.rglob("*"):
                if file.is_file():
                    (target / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
                    (target / file.relative_to(folder)).write_bytes(file.read_bytes())
        (cut.run.folder / "journal.jsonl").write_bytes(b"".join(lines[:count]) + torn)
        finish(resume(cut.run.folder))
        assert [msgspec.json.encode(event) for event in decisions(cut.run.folder)] == want


def test_a_journal_made_by_other_rules_is_refused(tmp_path):
    opened = start(tmp_path, (SLOTS,))
    finish(opened)
    other = resume(opened.run.folder)
    other.plan.levers[0].set["flags.slots"] = 6
    with pytest.raises(EvidenceError, match=r"other version|changed since|recorded for recipe"):
        finish(other)


def test_a_baseline_that_does_not_run_says_so(tmp_path):
    from servesmith.errors import MachineError

    opened = start(tmp_path, (SLOTS,), of=case(**{"oom-at-start": True}))
    with pytest.raises(MachineError, match="out-of-memory"):
        finish(opened)


def test_a_lossy_lever_is_refused_unless_it_is_allowed_by_name(tmp_path):
    lossy = SLOTS.model_copy(update={"name": "lossy-slots", "risk": "lossy"})
    opened = start(tmp_path / "refused", (lossy,))
    assert finish(opened).levers == ()
    proposed = events_of(opened.run.folder, Proposed)[0]
    assert "--allow-lossy lossy-slots" in proposed.refused["lossy-slots"]
    allowed = start(tmp_path / "allowed", (lossy,), allow_lossy="other,lossy-slots")
    assert finish(allowed).levers == ("lossy-slots",)
