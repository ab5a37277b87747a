"""What a budget ends, and how that is told."""

import pytest
from test_loop import events_of
from virtual import SLOTS, case, clock, finish, settings, start

from servesmith.recipe.model import Workload
from servesmith.report.summary import read_summary
from servesmith.store.events import NoiseMeasured, Noted, RunClosed
from servesmith.store.verify import verify_run
from servesmith.store.watch import Silent
from servesmith.tune.compare import compare
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan

LOUD = {"noise-restart": 0.05}


def compared(folder, budget_s, workload=None):
    update = {"workload": workload} if workload else {}
    of, rival = (case(**LOUD, **more).model_copy(update=update) for more in ({}, {"ctx": 1}))
    given = settings(budget_s=budget_s, proof_blocks=0, looks=(4, 6, 8))
    opened = open_run(Plan(verb="compare", case=of, settings=given, rival=rival), folder, Silent(), clock)
    with opened.run.journal:
        compare(opened.run, of, rival.recipe, require_quality=False)
    return opened.run.folder


@pytest.mark.parametrize(("budget_s", "blocks"), [(20, 1), (70, 4)])
def test_a_compare_that_its_budget_ended_says_so(tmp_path, budget_s, blocks):
    """A block takes 16 s of virtual time; nothing is kept back for a proof that is not to come."""
    folder = compared(tmp_path, budget_s)
    (closed,) = events_of(folder, RunClosed)
    assert closed.ending == "budget"
    assert f"The budget of {budget_s} s" in closed.because
    summary = read_summary(folder)
    assert summary.headline.blocks == blocks
    assert "--budget" in summary.headline.sentence
    assert all(check.ok for check in verify_run(folder))


def test_a_compare_without_a_budget_is_done(tmp_path):
    folder = compared(tmp_path, 0)
    assert events_of(folder, RunClosed)[0].ending == "done"
    assert "budget" not in read_summary(folder).headline.sentence


def test_a_budget_that_the_noise_alone_overran_is_told(tmp_path):
    opened = start(tmp_path, (SLOTS,), budget_s=30.0)
    finish(opened)
    assert events_of(opened.run.folder, NoiseMeasured)
    (note,) = (event.note for event in events_of(opened.run.folder, Noted) if "overrun" in event.note)
    assert note.startswith("The budget of 30 s was overrun: trials took ")
    assert all(check.ok for check in verify_run(opened.run.folder))


def test_a_comparison_of_windows_in_which_no_request_ended_says_so(tmp_path):
    folder = compared(tmp_path, 0, Workload(prompt_tokens=32, output_tokens=5000))
    summary = read_summary(folder)
    assert any("not one request ended inside the window" in doubt for doubt in summary.doubts)
