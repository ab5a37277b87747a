import msgspec
import pytest
import rundata

from servesmith.errors import EvidenceError
from servesmith.measure.records import Metric
from servesmith.store.events import Resumed, RunClosed, RunOpened, TrialEnded
from servesmith.store.journal import read_events
from servesmith.store.replay import START_TIME, opened_of, reading, replay
from servesmith.store.watch import Silent, Watcher


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay") / "run"
    rundata.benched_run(folder)
    return read_events(folder)


def test_a_run_is_what_its_events_say(events):
    state = replay(events)
    assert isinstance(state.opened, RunOpened)
    assert isinstance(state.closed, RunClosed)
    assert list(state.results) == ["bench/1"]


def test_of_a_repeated_trial_the_last_result_stands(events):
    again = next(event for event in events if isinstance(event, TrialEnded))
    again = msgspec.structs.replace(again, result=msgspec.structs.replace(again.result, seconds=99.0))
    state = replay([*events[:-1], Resumed(at="later"), again, events[-1]])
    assert state.results["bench/1"].seconds == 99.0


def test_a_journal_without_its_head_is_refused(events):
    for broken in ((), events[1:]):
        with pytest.raises(EvidenceError):
            opened_of(broken)


def test_the_start_time_is_read_like_a_metric(events):
    result = replay(events).results["bench/1"]
    assert reading(result, START_TIME) == Metric(result.ready_seconds, "s", "lower")
    assert reading(result, "output_tokens_per_s") == result.metrics["output_tokens_per_s"]
    assert reading(result, "nothing") is None
    assert reading(msgspec.structs.replace(result, ready_seconds=0.0), START_TIME) is None


def test_silence_watches_everything_and_says_nothing(events, capsys):
    watcher: Watcher = Silent()
    watcher.stage("noise", 8)
    watcher.trial_started("noise/block-1/A")
    watcher.progress("noise/block-1/A", 1.0, 9.0, 12)
    for event in events:
        watcher.event(event)
    watcher.close()
    assert capsys.readouterr() == ("", "")
