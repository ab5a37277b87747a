"""`knee` on the virtual engine, whose knee is known: slots bound the wait, the slope bounds the pace."""

import shutil

import msgspec
import pytest
from virtual import case, clock, settings

from servesmith.errors import EvidenceError, InputError
from servesmith.measure.records import Metric
from servesmith.report.audit import audit
from servesmith.report.curve import pareto
from servesmith.report.page import write_report
from servesmith.report.summary import read_summary
from servesmith.stats.knee import KneeRules
from servesmith.store.events import KneeFound, RunClosed, TrialEnded
from servesmith.store.journal import JOURNAL, Journal, read_events
from servesmith.store.knee import knee_rules_of, margin, place_of_key, rules_as_values
from servesmith.store.watch import Silent
from servesmith.tune.knee import knee
from servesmith.tune.open import open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.run import IncumbentFailed


def started(folder, limits, rules=KneeRules(), **flags):  # noqa: B008
    of = case(**{"slots": 16, **flags})
    of = of.model_copy(update={"goal": of.goal.model_copy(update={"limits": limits})})
    plan = Plan(verb="knee", case=of, settings=settings(), extra={"dial": "streams", **rules_as_values(rules)})
    return open_run(plan, folder, Silent(), clock)


def measured(opened):
    with opened.run.journal:
        found = knee(opened.run, opened.plan.case)
    write_report(opened.run.folder)
    return found


def test_slots_are_the_knee_of_the_wait(tmp_path):
    found = measured(started(tmp_path, {"ttft_p95_ms": 100}))
    assert (found.says, found.at_least, found.breaks_at) == ("knee", 16, 17)


def test_the_slope_is_the_knee_of_the_pace(tmp_path):
    """10 ms * (1 + 0.05 * (n - 1)) is 15.0 ms at 11 streams and 15.5 ms at 12; restarts scatter by 1 %."""
    found = measured(started(tmp_path, {"tpot_mean_ms": 15.25}))
    assert 10 <= found.at_least <= 11
    assert 12 <= found.breaks_at <= 13


def test_several_limits_must_all_be_kept(tmp_path):
    found = measured(started(tmp_path, {"ttft_p95_ms": 100, "tpot_mean_ms": 13.2, "error_rate": 0.01}))
    assert 6 <= found.at_least <= 7
    assert found.breaks_at <= 9


def test_the_curve_has_every_level_and_its_front(tmp_path):
    opened = started(tmp_path, {"ttft_p95_ms": 100}, KneeRules(ladder=(1, 4, 16, 64)))
    measured(opened)
    summary = read_summary(opened.run.folder)
    assert [point.level for point in summary.curve] == [1, 4, 16, 64]
    assert [point.starts for point in summary.curve] == [1, 1, 7, 7]
    assert summary.curve[0].front[0] == "interactivity"
    assert [point.says for point in summary.curve] == ["", "", "keeps", "breaks"]
    page = (opened.run.folder / "report.html").read_text()
    assert "Claims at the edge" in page
    assert page.count("<figure>") == 2


def test_without_limits_there_is_a_curve_and_no_answer(tmp_path):
    opened = started(tmp_path, {}, KneeRules(ladder=(1, 2)))
    assert measured(opened) is None
    summary = read_summary(opened.run.folder)
    assert summary.knee is None
    assert [point.starts for point in summary.curve] == [1, 1]


def test_a_recipe_that_does_not_start_is_a_failed_run(tmp_path):
    opened = started(tmp_path, {"ttft_p95_ms": 100}, **{"oom-at-start": True})
    with opened.run.journal, pytest.raises(IncumbentFailed, match="out-of-memory"):
        knee(opened.run, opened.plan.case)
    assert read_events(opened.run.folder)[-1].ending == "failed"
    assert "failed twice" in read_summary(opened.run.folder).headline.sentence


def test_a_run_cut_anywhere_goes_on_to_the_same_answer(tmp_path):
    opened = started(tmp_path / "whole", {"ttft_p95_ms": 100}, KneeRules(ladder=(8, 16, 24), repeats=3))
    whole = measured(opened)
    lines = (opened.run.folder / JOURNAL).read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines), 3):
        folder = tmp_path / f"cut-{cut}"
        shutil.copytree(opened.run.folder, folder)
        (folder / JOURNAL).write_bytes(b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
        again = resume_run(folder, Silent(), clock, "knee")
        assert measured(again) == whole
        assert all(check.ok for check in audit(folder))
        trials = [event.result.key for event in read_events(folder) if isinstance(event, TrialEnded)]
        assert len(trials) == len(set(trials))


def test_it_cannot_be_gone_on_with_as_another_verb(tmp_path):
    opened = started(tmp_path, {"ttft_p95_ms": 100}, KneeRules(ladder=(1,), repeats=3))
    measured(opened)
    with pytest.raises(InputError, match="knee"):
        resume_run(opened.run.folder, Silent(), clock, "tune")


def forged(folder, change):
    """The run with changed events under a chain of checksums made anew."""
    events = [change(event) for event in read_events(folder)]
    (folder / JOURNAL).unlink()
    with Journal.create(folder, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    return {check.name: check for check in audit(folder)}


@pytest.fixture
def finished(tmp_path):
    opened = started(tmp_path, {"ttft_p95_ms": 100}, KneeRules(ladder=(8, 16, 24), repeats=3))
    measured(opened)
    return opened.run.folder


def test_a_higher_knee_than_was_measured_is_found_out(finished):
    def change(event):
        if not isinstance(event, KneeFound):
            return event
        return msgspec.structs.replace(event, knee=msgspec.structs.replace(event.knee, at_least=24))

    assert "at_least is told as 24" in forged(finished, change)["knee"].detail


def test_a_softer_limit_is_found_out(finished):
    def change(event):
        return msgspec.structs.replace(event, limits={"ttft_p95_ms": 900.0}) if isinstance(event, KneeFound) else event

    assert not forged(finished, change)["knee"].ok


def test_a_start_at_another_level_than_its_key_says_is_found_out(finished):
    """Trials of two levels that change their keys keep files and numbers, but not the load that was asked for."""
    swap = {"edge/streams=16/1": "edge/streams=24/1", "edge/streams=24/1": "edge/streams=16/1"}

    def change(event):
        if isinstance(event, TrialEnded) and event.result.key in swap:
            return TrialEnded(result=msgspec.structs.replace(event.result, key=swap[event.result.key]))
        return event

    assert "its key says" in forged(finished, change)["knee"].detail


def test_starts_left_out_are_found_out(finished):
    events = [
        e for e in read_events(finished) if not (isinstance(e, TrialEnded) and e.result.key == "edge/streams=16/3")
    ]
    (finished / JOURNAL).unlink()
    with Journal.create(finished, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    assert "still missing" in {check.name: check for check in audit(finished)}["knee"].detail


def test_the_rules_of_the_journal_hold(finished):
    opened = read_events(finished)[0]
    assert knee_rules_of(opened) == KneeRules(ladder=(8, 16, 24), repeats=3)
    with pytest.raises(EvidenceError):
        knee_rules_of(msgspec.structs.replace(opened, settings={"repeats": 1}))


def test_it_closes_with_the_answer_in_words(finished):
    closed = read_events(finished)[-1]
    assert isinstance(closed, RunClosed)
    assert closed.because.startswith("The knee is 16 streams: 16 shown to keep ttft_p95_ms <= 100, 24 shown to break")


def test_margins_are_signed_by_what_is_better():
    assert margin("ttft_p95_ms", Metric(200.0, "ms", "lower"), 100) > 0
    assert margin("output_tokens_per_s", Metric(200.0, "tokens/s", "higher"), 100) < 0
    assert margin("error_rate", Metric(0.0, "fraction", "lower"), 0.01) == -0.01


def test_keys_of_other_trials_are_none():
    assert place_of_key("edge/streams=16/3").level == 16
    assert place_of_key("bench/1") is None


def test_the_front_is_what_nothing_beats():
    assert pareto([(1, 3), (2, 2), (3, 1), (1, 1), (2, 2)]) == (True, True, True, False, True)
