"""kill -9 in the middle of a tune: what was decided stands, what was measured stays, nothing is left behind."""

import random
import time
from contextlib import suppress

import msgspec
import psutil
from shell import MARK, TUNE

from servesmith.store.events import Discarded, Kept, Resumed, RunClosed, RunOpened, TrialEnded, TrialStarted
from servesmith.store.journal import read_events


def decisions(folder):
    bookkeeping = (RunOpened, TrialStarted, TrialEnded, Resumed)
    return [msgspec.json.encode(event) for event in read_events(folder) if not isinstance(event, bookkeeping)]


def trials(folder):
    return {event.result.key: event.result for event in read_events(folder) if isinstance(event, TrialEnded)}


def servers(shell):
    """Servers that this test's own commands started: other tests may run beside it."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            ours = process.environ().get(MARK) == shell.env[MARK]
            if ours and any("servesmith.engine" in word for word in process.info["cmdline"] or []):
                found.append(process.info["cmdline"])
    return found


def kill_in_the_middle(shell, *words, after):
    process = shell.start(*words)
    time.sleep(after)
    process.kill()
    process.wait()


def test_virtual_run_killed_many_times_ends_like_one_that_was_not(servesmith, tmp_path):
    whole = servesmith("tune", "virtual.yaml", *TUNE, "--runs", "whole")
    assert whole.code == 0, whole.err
    (reference,) = (tmp_path / "whole").iterdir()
    draw = random.Random(1)
    kill_in_the_middle(servesmith, "tune", "virtual.yaml", *TUNE, after=2.5)
    folder = servesmith.run_folder()
    for _ in range(4):
        before = decisions(folder) if (folder / "journal.jsonl").stat().st_size else []
        kill_in_the_middle(servesmith, "tune", "--resume", folder, after=draw.uniform(1.2, 2.6))
        assert decisions(folder)[: len(before)] == before
    last = servesmith("tune", "--resume", folder)
    assert last.code == 0, last.err
    assert decisions(folder) == decisions(reference)
    assert trials(folder) == trials(reference)
    assert servesmith("verify", folder).code == 0


def test_sim_server_run_killed_leaves_nothing_and_goes_on(servesmith):
    process = servesmith.start("tune", "sim.yaml", *TUNE)
    time.sleep(12)
    while not servers(servesmith) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    folder = servesmith.run_folder()
    time.sleep(0.5)
    assert servers(servesmith) == []
    before, measured = decisions(folder), trials(folder)
    assert measured, "it was killed before the first trial had ended"
    said = servesmith("tune", "--resume", folder)
    assert said.code == 0, said.err
    assert decisions(folder)[: len(before)] == before
    after = trials(folder)
    assert {key: after[key] for key in measured} == measured
    events = read_events(folder)
    started = [event.key for event in events if isinstance(event, TrialStarted)]
    repeated = {key for key in started if started.count(key) > 1}
    assert len(repeated) <= 1
    assert [event.lever for event in events if isinstance(event, Kept)] == ["slots-8"]
    assert {event.lever for event in events if isinstance(event, Discarded)} == {"slower", "dies"}
    assert isinstance(events[-1], RunClosed)
    assert servers(servesmith) == []
