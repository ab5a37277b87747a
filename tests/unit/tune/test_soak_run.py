"""`soak` on the virtual engine: a server that holds, one that slows down, one that leaks, one that does not start."""

import shutil

import msgspec
import pytest
from virtual import case, clock, settings

from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.series import failures, memory_bins, rate_bins
from servesmith.report.audit import audit
from servesmith.report.page import write_report
from servesmith.report.summary import read_summary
from servesmith.stats.soak import SoakRules
from servesmith.store.events import Soaked
from servesmith.store.journal import JOURNAL, Journal, read_events
from servesmith.store.watch import Silent
from servesmith.tune.open import open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.soak import soak


def opened(folder, **flags):
    of = case(**flags)
    of = of.model_copy(update={"load": of.load.model_copy(update={"window_s": 120.0})})
    plan = Plan(verb="soak", case=of, settings=settings(), extra=msgspec.to_builtins(SoakRules()))
    return open_run(plan, folder, Silent(), clock)


def soaked(of):
    with of.run.journal:
        found = soak(of.run, of.plan.case)
    write_report(of.run.folder)
    assert all(check.ok for check in audit(of.run.folder))
    return found


def test_a_server_that_holds_is_steady(tmp_path):
    found = soaked(opened(tmp_path))
    assert found.says == "steady"
    assert found.errors.failed == 0
    assert found.first_tenth == pytest.approx(found.last_tenth, rel=0.02)


def test_one_that_slows_down_is_degrading(tmp_path):
    of = opened(tmp_path, drift=0.15)
    found = soaked(of)
    assert found.says == "degrading"
    assert "throughput fell" in found.because
    assert -0.35 < found.throughput.change < -0.10
    assert "throughput fell" in read_summary(of.run.folder).headline.sentence


def test_one_that_leaks_is_degrading(tmp_path):
    found = soaked(opened(tmp_path, **{"leak-mib": 0.05}))
    assert "memory grew" in found.because
    assert found.memory.low > 0.05


def test_one_that_does_not_start_is_a_failed_run(tmp_path):
    of = opened(tmp_path, **{"oom-at-start": True})
    assert soaked(of) is None
    assert read_events(of.run.folder)[-1].ending == "failed"


def test_cut_anywhere_it_goes_on_to_the_same_verdict(tmp_path):
    of = opened(tmp_path / "whole")
    whole = soaked(of)
    lines = (of.run.folder / JOURNAL).read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        folder = tmp_path / str(cut)
        shutil.copytree(of.run.folder, folder)
        (folder / JOURNAL).write_bytes(b"".join(lines[:cut]) + lines[cut][:20])
        assert soaked(resume_run(folder, Silent(), clock, "soak")) == whole


def test_a_kinder_verdict_is_found_out(tmp_path):
    of = opened(tmp_path, drift=0.15)
    soaked(of)
    events = [
        msgspec.structs.replace(event, verdict=msgspec.structs.replace(event.verdict, says="steady"))
        if isinstance(event, Soaked)
        else event
        for event in read_events(of.run.folder)
    ]
    (of.run.folder / JOURNAL).unlink()
    with Journal.create(of.run.folder, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    found = {check.name: check for check in audit(of.run.folder)}["soak"]
    assert "says is told as steady" in found.detail


SECOND = 1_000_000_000
WINDOW = Window(SECOND, 11 * SECOND)


def record(end_s, tokens=1.0, error=""):
    stamp = int(end_s * SECOND)
    return RequestRecord(
        index=0, stream=0, due_ns=0, sent_ns=0, end_ns=stamp, chunk_ns=(stamp,), chunk_tokens=(tokens,),
        chunk_kinds=(1,), error=error,
    )  # fmt: skip


def test_bins_hold_the_tokens_of_their_time():
    assert rate_bins([record(1.5, 4), record(2.5, 6), record(0.5, 9), record(11.5, 9)], WINDOW, 10)[:3] == (
        4.0,
        6.0,
        0.0,
    )


def test_memory_bins_have_two_samples_each():
    samples = [(SECOND * (1 + place) // 1, float(place)) for place in range(1, 9)]
    assert memory_bins(samples, WINDOW, 40) == pytest.approx((1.0, 3.0, 5.5, 7.5), abs=0.6)
    assert memory_bins([], WINDOW, 40) == ()


def test_failures_by_tenths():
    ended, tenths = failures([record(1.5), record(10.5, error="cut"), record(3.0, error="cancelled")], WINDOW)
    assert ended == [True, False]
    assert tenths == (0,) * 9 + (1,)
