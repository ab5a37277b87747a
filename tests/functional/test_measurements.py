"""The measurements of their own, through the command line: known answers, kill -9, verify, what bad input is told."""

import time

import pytest

from servesmith.store.events import TrialEnded
from servesmith.store.journal import read_events

KNEE = ("knee", "sim.yaml", "--limit", "ttft_p95_ms=40", "--levels", "2,4,8", "--repeats", "3")


def test_the_knee_of_a_real_server_is_its_slots(servesmith):
    """4 slots, 20 ms to the first token: at 8 streams half of them wait for a whole answer of others."""
    said = servesmith(*KNEE, "--json")
    assert said.code == 0, said.err
    knee = said.document["knee"]["knee"]
    assert (knee["at_least"], knee["breaks_at"]) == (4, 8)
    assert [point["level"] for point in said.document["curve"]] == [2, 4, 8]
    assert servesmith("verify", servesmith.run_folder()).code == 0


def test_a_limit_that_nothing_keeps_is_a_no(servesmith):
    said = servesmith("knee", "virtual.yaml", "--limit", "ttft_p95_ms=1")
    assert said.code == 1
    assert "1 stream breaks it with 95 % confidence" in said.out


def kill_after_trials(shell, words, trials):
    process = shell.start(*words)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        folders = list((shell.folder / "runs").glob("*/journal.jsonl"))
        if folders and folders[0].read_bytes().count(b'"trial-ended"') >= trials:
            break
        time.sleep(0.02)
    process.kill()
    process.wait()


def trials(folder):
    return [event.result for event in read_events(folder) if isinstance(event, TrialEnded)]


@pytest.mark.parametrize(
    ("words", "after"), [(KNEE, 4)], ids=lambda value: value[0] if isinstance(value, tuple) else ""
)
def test_killed_it_goes_on_and_verifies(servesmith, words, after):
    kill_after_trials(servesmith, words, after)
    folder = servesmith.run_folder()
    before = trials(folder)
    assert before
    said = servesmith(words[0], "--resume", folder)
    assert said.code == 0, said.err
    assert trials(folder)[: len(before)] == before
    assert len({result.key for result in trials(folder)}) == len(trials(folder))
    assert servesmith("verify", folder).code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["knee"], "--resume"),
        (["knee", "sim.yaml"], "--limit"),
        (["knee", "sim.yaml", "--limit", "ttft_p95_ms"], "ttft_p95_ms=2000"),
        (["knee", "sim.yaml", "--limit", "speed=3"], "speed"),
        (["knee", "sim.yaml", "--limit", "error_rate=0"], "above 0"),
        (["knee", "sim.yaml", "--levels", "4,2"], "--levels"),
        (["knee", "sim.yaml", "--limit", "ttft_p95_ms=5", "--first", "8", "--most", "4"], "first <= most"),
        (["knee", "--resume", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_told_in_words(servesmith, words, named):
    said = servesmith(*words)
    assert said.code == 2
    assert named in said.err
    assert not (servesmith.folder / "runs").exists()


def test_dry_run_shows_the_command_and_starts_nothing(servesmith):
    said = servesmith(*KNEE, "--dry-run", "--json")
    assert said.code == 0
    assert said.document["settings"]["ladder"] == "2,4,8"
    assert "simserver" in next(iter(said.document["commands"].values()))
    assert not (servesmith.folder / "runs").exists()
