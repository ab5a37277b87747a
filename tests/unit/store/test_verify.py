"""What was changed must be found and named: a byte of a file, and a number of a journal whose chain was forged anew."""

import shutil
from pathlib import Path

import msgspec
import pytest
import rundata

from servesmith.errors import EvidenceError, InputError
from servesmith.recipe.files import read_case
from servesmith.stats.rules import Rules
from servesmith.store.decide import pairs_of, verdict_of
from servesmith.store.events import Decided, Gated, NoiseMeasured, RunOpened, TrialEnded
from servesmith.store.journal import Journal, read_events
from servesmith.store.replay import replay
from servesmith.store.verify import Check, checked, require, rules_of, verify_run

replaced = msgspec.structs.replace


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "run"
    rundata.tuned_run(folder)
    return folder


@pytest.fixture
def run(honest, tmp_path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "run"))


def forge(run: Path, kind, change) -> None:
    """Write the journal anew, its chain sound, with the last event of this kind changed."""
    events = list(read_events(run))
    at = max(place for place, event in enumerate(events) if isinstance(event, kind) and change(event) != event)
    events[at] = change(events[at])
    (run / "journal.jsonl").unlink()
    with Journal.create(run, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)


def failing(run: Path) -> Check:
    """The one check that is not ok."""
    (bad,) = [check for check in verify_run(run) if not check.ok]
    return bad


def test_an_honest_run_passes_and_says_what_was_compared(honest):
    checks = verify_run(honest)
    assert all(check.ok for check in checks)
    details = {check.name: check.detail for check in checks}
    assert details["files"] == "224 files of 44 trials have their SHA-256"
    assert details["verdicts"] == "3 verdicts follow from the numbers of their blocks"
    assert details["gates"] == "2 gates follow from the stored answers"


def one_bit(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0, 1000, 5000, -1])
@pytest.mark.parametrize("name", ["requests.parquet", "counters.json", "command.txt", "engine.log", "recipe.yaml"])
def test_one_bit_of_a_trials_file_is_found_and_the_file_named(run, name, place):
    file = f"trials/prove--block-2--B/{name}"
    one_bit(run / file, place)
    bad = failing(run)
    assert (bad.name, bad.file) == ("files", file)
    assert "SHA-256" in bad.detail


def test_one_bit_of_an_answer_is_found(run):
    file = "trials/gate--final--B/quality/sort.jsonl"
    one_bit(run / file, 300)
    assert failing(run).file == file


def test_a_missing_file_is_named(run):
    file = "trials/noise--block-1--A/requests.parquet"
    (run / file).unlink()
    assert failing(run) == Check("files", ok=False, detail="is missing.", file=file)


def test_a_file_that_was_put_there_is_named(run):
    file = "trials/screen--round-1--threads-1/requests.parquet"
    shutil.copy(run / "trials/prove--block-2--B/requests.parquet", run / file)
    assert failing(run).file == file


@pytest.mark.parametrize("name", ["recipe.yaml", "levers.yaml"])
def test_a_changed_input_is_named(run, name):
    (run / name).write_text((run / name).read_text() + "# more\n")
    bad = failing(run)
    assert (bad.name, bad.file) == ("inputs", name)


def test_a_case_of_another_hash_is_named(run):
    forge(run, RunOpened, lambda event: replaced(event, case_hash="0" * 16))
    assert failing(run).file == "recipe.yaml"


def test_a_changed_line_of_the_journal_ends_it(run):
    path = run / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"ending":"ok"', b'"ending":"no"', 1))
    (only,) = verify_run(run)
    assert (only.name, only.ok, only.file) == ("journal", False, "journal.jsonl")
    assert "line " in only.detail


def scaled(event: TrialEnded) -> TrialEnded:
    metrics = dict(event.result.metrics)
    if "output_tokens_per_s" not in metrics:
        return event
    told = metrics["output_tokens_per_s"]
    metrics["output_tokens_per_s"] = replaced(told, value=told.value * (1 + 1e-12))
    return replaced(event, result=replaced(event.result, metrics=metrics))


def test_a_number_that_does_not_follow_from_its_records_is_named_to_the_last_digit(run):
    forge(run, TrialEnded, scaled)
    (numbers, *_) = [check for check in verify_run(run) if not check.ok]
    assert numbers.name == "numbers"
    assert numbers.detail.startswith("output_tokens_per_s of trial prove/block-5/")


def test_a_doubt_that_was_dropped_is_found(run):
    def undoubted(event):
        metrics = {key: replaced(metric, doubts=()) for key, metric in event.result.metrics.items()}
        return replaced(event, result=replaced(event.result, metrics=metrics))

    forge(run, TrialEnded, undoubted)
    assert "with doubts" in failing(run).detail


def test_numbers_without_records_prove_nothing(run):
    def bare(event):
        files = {name: digest for name, digest in event.result.files.items() if name != "requests.parquet"}
        if files == event.result.files:
            return event
        return replaced(event, result=replaced(event.result, files=files))

    forge(run, TrialEnded, bare)
    (run / "trials/prove--block-5--B/requests.parquet").unlink(missing_ok=True)
    bad = failing(run)
    assert (bad.name, bad.detail) == ("numbers", "has numbers in the journal but no raw records.")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("says", "same"),
        ("blocks", 6),
        ("log_ratios", (0.3, 0.3, 0.3, 0.3, 0.3)),
        ("detectable", 0.0001),
        ("doubts", ()),
    ],
)
def test_a_verdict_that_does_not_follow_from_its_blocks_is_named(run, field, value):
    forge(run, Decided, lambda event: replaced(event, verdict=replaced(event.verdict, **{field: value})))
    bad = failing(run)
    assert bad.name == "verdicts"
    assert bad.detail.startswith(f"verdict prove final: {field} is told as ")


def test_a_verdict_on_chosen_blocks_is_found(run):
    """Leaving out the two worst blocks changes the verdict that they give."""
    forge(run, Decided, lambda event: replaced(event, trials=event.trials[:6]))
    assert failing(run).name == "verdicts"


def test_a_proof_with_fewer_blocks_than_its_settings_fixed_is_not_believed(run):
    """Four of five blocks, and the verdict that these four would honestly give."""
    case, results = read_case(run / "recipe.yaml"), replay(read_events(run)).results

    def shorter(event):
        pairs = pairs_of(event.trials[:8], results)
        verdict = verdict_of(pairs, case.goal, Rules(looks=rundata.LOOKS), fixed=True)
        return replaced(event, trials=event.trials[:8], verdict=verdict)

    forge(run, Decided, shorter)
    bad = failing(run)
    assert bad.name == "verdicts"
    assert "says is told as better, its blocks give undecided" in bad.detail


def test_a_proof_that_lost_a_block_and_says_so_passes(run):
    case, results = read_case(run / "recipe.yaml"), replay(read_events(run)).results

    def shorter(event):
        pairs = pairs_of(event.trials[:8], results)
        verdict = verdict_of(pairs, case.goal, Rules(looks=rundata.LOOKS), fixed=True, planned=5)
        return replaced(event, trials=event.trials[:8], verdict=verdict)

    forge(run, Decided, shorter)
    assert all(check.ok for check in verify_run(run))


def test_a_verdict_on_a_trial_that_never_was_is_found(run):
    forge(run, Decided, lambda event: replaced(event, trials=(*event.trials[:-1], "prove/block-9/B")))
    assert failing(run).detail == "a verdict stands on trial prove/block-9/B, which is not recorded."


def test_noise_that_was_played_down_is_found(run):
    forge(run, NoiseMeasured, lambda event: replaced(event, sd=event.sd / 2))
    assert failing(run).name == "noise"


def test_a_gate_that_the_answers_do_not_bear_out_is_found(run):
    forge(run, Gated, lambda event: replaced(event, passed=not event.passed))
    bad = failing(run)
    assert (bad.name, bad.detail) == (
        "gates",
        "gate of final: passed is told as False, the answers give True.",
    )


def test_greedy_agreement_is_counted_again(run):
    forge(run, Gated, lambda event: replaced(event, greedy=replaced(event.greedy, identical=3)))
    assert "gate of final: greedy is told as" in failing(run).detail


def test_rules_other_than_those_of_the_run_give_another_verdict(run):
    changed = {"alpha": 0.2}
    forge(run, RunOpened, lambda event: replaced(event, settings=event.settings | changed))
    assert {"noise", "verdicts"} == {check.name for check in verify_run(run) if not check.ok}


def test_rules_are_those_of_the_settings(honest):
    rules = rules_of(read_events(honest)[0])
    assert (rules.looks, rules.alpha, rules.minimum_gain) == ((4, 6), 0.010, 0.01)


def test_a_folder_without_a_run_is_no_evidence_of_anything(tmp_path):
    with pytest.raises(InputError):
        verify_run(tmp_path)


def test_require_names_all_that_differ():
    bad = [Check("a", ok=False, detail="is missing.", file="x"), Check("b", ok=False, detail="was changed.", file="y")]
    with pytest.raises(EvidenceError, match=r"x: is missing\.\ny: was changed\."):
        require([Check("c", ok=True, detail=""), *bad])
    require([Check("c", ok=True, detail="")])


def test_a_bug_in_a_check_is_not_taken_for_a_difference():
    with pytest.raises(ZeroDivisionError):
        checked("bug", lambda: str(1 / 0))
