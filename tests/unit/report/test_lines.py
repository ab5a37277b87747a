import pytest

from servesmith.report.lines import event_line
from servesmith.store.events import (
    Decided,
    Discarded,
    Gated,
    Kept,
    NoiseMeasured,
    Noted,
    Proposed,
    Resumed,
    RunOpened,
    TrialEnded,
    TrialStarted,
)
from servesmith.store.journal import read_events


@pytest.fixture(scope="module")
def lines(tuned):
    return [(type(event), event_line(event)) for event in read_events(tuned)]


def test_no_event_takes_more_than_a_line(lines):
    assert all("\n" not in line for _, line in lines)


def test_all_but_openings_say_something(lines):
    silent = {kind for kind, line in lines if not line}
    assert silent == {RunOpened, TrialStarted}


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (TrialEnded, "noise/block-1/A ok: 1"),
        (NoiseMeasured, "A against A: "),
        (Proposed, "to try: parallel=8, ngram-simple, threads-1; refused: flash-attention"),
        (Decided, "confirm parallel=8: better, +"),
        (Gated, "gate of parallel=8 passed: "),
        (Kept, "keep parallel=8: "),
        (Discarded, "discard threads-1 (screen): failed, crash"),
        (Noted, "note: The demo is shortened"),
    ],
)
def test_what_each_says(lines, kind, start):
    assert next(line for found, line in lines if found is kind).startswith(start)


def test_a_failed_trial_says_why(lines):
    assert "screen/round-1/threads-1 failed (crash: terminate: bad thread pool), 10 s" in [line for _, line in lines]


def test_resuming_is_said():
    assert event_line(Resumed(at="2026-12-01T12:00:00+00:00")) == "resumed at 2026-12-01T12:00:00+00:00"
