"""The measurements of their own, through the command line: known answers, kill -9, verify, what bad input is told."""

import time

import pytest

from servesmith.store.events import TrialEnded
from servesmith.store.journal import read_events

START = ("start", "sim.yaml", "-n", "2", "--set", "flags.cold-start=1.0")
PREFILL = (
    "prefill", "sim.yaml", "--tokens", "400", "--prompts", "8", "--concurrency", "8", "-n", "3",
    "--set", "flags.prefill-ms-per-token=0.2",
)  # fmt: skip
SOAK = ("soak", "sim.yaml", "--minutes", "0.05")
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


def test_a_cold_start_of_a_real_server_takes_longer(servesmith):
    said = servesmith(*START, "--json")
    assert said.code == 0, said.err
    arms = said.document["ranges"]
    cold, warm = (arms[arm]["time_to_health_s"]["median"] for arm in ("cold", "warm"))
    assert cold > warm + 0.7
    assert arms["cold"]["time_to_first_token_s"]["low"] > arms["cold"]["time_to_health_s"]["low"]
    assert servesmith("verify", servesmith.run_folder()).code == 0


def test_the_prefill_of_a_real_server_is_bounded_by_its_slots(servesmith):
    """4 slots of 400 tokens, each at least 20 + 0.2 * 400 = 100 ms: at most 16,000 tokens/s."""
    said = servesmith(*PREFILL, "--json")
    assert said.code == 0, said.err
    found = said.document["ranges"]["8x400"]
    assert 1000 < found["prefill_tokens_per_s"]["median"] <= 16_100
    assert found["prefill_cached_fraction"]["high"] == 0
    assert servesmith("verify", servesmith.run_folder()).code == 0


def test_a_soak_of_a_real_server_reads_its_memory(servesmith):
    said = servesmith(*SOAK, "--json")
    assert said.code == 0, said.err
    assert said.document["soak"]["says"] in ("steady", "undecided")
    assert said.document["soak"]["throughput"]["bins"] == 40
    counters = next(servesmith.run_folder().glob("trials/*/counters.json")).read_text()
    assert '"memory": [' in counters
    assert servesmith("verify", servesmith.run_folder()).code == 0


def test_a_soak_that_was_killed_goes_on(servesmith):
    process = servesmith.start(*SOAK)
    time.sleep(3)
    process.kill()
    process.wait()
    folder = servesmith.run_folder()
    said = servesmith("soak", "--resume", folder)
    assert said.code == 0, said.err
    assert servesmith("verify", folder).code == 0


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
        (["start"], "--resume"),
        (["start", "http://127.0.0.1:9"], "127.0.0.1"),
        (["prefill", "sim.yaml", "--tokens", "0"], "--tokens"),
        (["soak", "sim.yaml", "--minutes", "0"], "--minutes"),
        (["soak", "nothing.yaml"], "nothing.yaml"),
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
