"""What was changed must be found and named: a byte of a file, and a number of a journal whose chain was forged anew."""

import shutil
from pathlib import Path

import msgspec
import pytest
import rundata

from servesmith.errors import EvidenceError, InputError
from servesmith.measure.answers import read_sheets
from servesmith.recipe.files import read_case
from servesmith.stats.gate import GateRules
from servesmith.stats.rules import Rules
from servesmith.store.decide import pairs_of, rules_of, verdict_of
from servesmith.store.events import Decided, Gated, NoiseMeasured, Resumed, RunClosed, RunOpened, TrialEnded
from servesmith.store.gates import discordance, judge_sheets
from servesmith.store.hashing import file_digest
from servesmith.store.journal import Journal, read_events
from servesmith.store.replay import replay
from servesmith.store.verify import Check, checked, require, verify_run

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
    assert details["closed"] == "the run came to its end: done"
    assert details["files"] == "230 files of 44 trials have their SHA-256"
    assert details["identity"].startswith("44 trials served the recipe of their hash; the arms of 17 blocks")
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
        verdict = verdict_of(pairs, case.goal, Rules(looks=rundata.LOOKS), planned=len(pairs))
        return replaced(event, trials=event.trials[:8], verdict=verdict)

    forge(run, Decided, shorter)
    bad = failing(run)
    assert bad.name == "verdicts"
    assert "says is told as better, its blocks give undecided" in bad.detail


def test_a_proof_that_lost_a_block_and_says_so_passes(run):
    case, results = read_case(run / "recipe.yaml"), replay(read_events(run)).results

    def shorter(event):
        pairs = pairs_of(event.trials[:8], results)
        verdict = verdict_of(pairs, case.goal, Rules(looks=rundata.LOOKS), planned=5)
        return replaced(event, trials=event.trials[:8], verdict=verdict)

    forge(run, Decided, shorter)
    assert all(check.ok for check in verify_run(run))


def test_a_verdict_on_a_trial_that_never_was_is_found(run):
    forge(run, Decided, lambda event: replaced(event, trials=(*event.trials[:-1], "prove/block-9/B")))
    told = {check.detail for check in verify_run(run) if not check.ok}
    assert told == {"a verdict stands on trial prove/block-9/B, which is not recorded."}


@pytest.mark.parametrize("cut", [-1, -2])
def test_a_verdict_on_half_a_block_is_found(run, cut):
    forge(run, Decided, lambda event: replaced(event, trials=event.trials[:cut]))
    assert "verdicts" in {check.name for check in verify_run(run) if not check.ok}


def test_a_verdict_on_a_trial_that_failed_is_found(run):
    dead = "screen/round-1/threads-1"
    forge(run, Decided, lambda event: replaced(event, trials=(*event.trials[:-1], dead)))
    details = {check.name: check.detail for check in verify_run(run)}
    assert details["verdicts"] == f"a verdict stands on trial {dead}, which has no output_tokens_per_s."


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


def test_a_gate_passes_nothing_without_a_task(run):
    forge(run, Gated, lambda event: replaced(event, tasks=(), passed=True))
    bad = failing(run)
    assert (bad.name, bad.detail) == ("gates", "gate of final: passed is told, but no task was judged.")


@pytest.mark.parametrize(
    "trials", [("gate/final/A", "gate/final/A-restarted"), ("gate/final/A", "gate/final/A", "gate/final/B"), ()]
)
def test_a_gate_needs_three_trials(run, trials):
    forge(run, Gated, lambda event: replaced(event, trials=trials))
    assert failing(run).detail.endswith("trials, not 3.")


def test_a_gate_on_a_trial_that_never_was_is_found(run):
    forge(run, Gated, lambda event: replaced(event, trials=(*event.trials[:2], "gate/final/C")))
    assert failing(run).detail == "gate of final: its trial gate/final/C is not recorded."


def test_a_gate_of_the_baseline_in_the_candidates_place_is_found(run):
    forge(run, Gated, lambda event: replaced(event, trials=(event.trials[0], event.trials[2], event.trials[1])))
    assert "gate/final/B served recipe" in failing(run).detail


def test_greedy_answers_to_fewer_prompts_are_evidence_of_nothing(run):
    rewrite(run, "gate/final/B", "greedy.json", b'["answer 0"]')
    bad = failing(run)
    assert (bad.name, bad.file) == ("gates", "greedy.json")
    assert "they are not of the same prompts" in bad.detail


def test_a_gate_is_computed_again_at_its_own_share_of_alpha(run):
    results = replay(read_events(run)).results

    def split(event):
        a, again, b = (read_sheets(run / results[key].folder / "quality") for key in event.trials)
        verdict = judge_sheets(a, b, GateRules(margin=0.05, alpha=0.01, aa_discordance=discordance(a, again)))
        return replaced(event, tasks=verdict.tasks, passed=verdict.passed)

    forge(run, Gated, split)
    assert all(check.ok for check in verify_run(run))


def test_a_gate_at_a_generous_alpha_is_not_believed(run):
    def generous(event):
        return replaced(event, tasks=(*event.tasks[:-1], replaced(event.tasks[-1], alpha=0.4)))

    forge(run, Gated, generous)
    assert failing(run).detail == "gate of final: alpha is told as 0.4, it is at most 0.05."


@pytest.mark.parametrize("lost", [1, 2, 30])
def test_an_end_that_was_cut_off_is_found(run, lost):
    path = run / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lost]))
    bad = [check for check in verify_run(run) if not check.ok]
    assert bad[0].name == "closed"
    assert bad[0].file == "journal.jsonl"
    assert "its end was cut off" in bad[0].detail


def test_resuming_a_finished_run_leaves_it_closed(run):
    with Journal.resume(run, sync=lambda _: None) as journal:
        journal.append(Resumed(at="later"))
    assert all(check.ok for check in verify_run(run))


def test_a_run_that_is_open_says_so(tmp_path):
    rundata.cut_run(tmp_path / "run")
    bad = failing(tmp_path / "run")
    assert bad.name == "closed"
    assert bad.detail.startswith("has no end: the run was broken off")


def rewrite(run: Path, key: str, name: str, data: bytes) -> None:
    """Change a trial's file and record it as if it had always been so."""
    result = replay(read_events(run)).results[key]
    (run / result.folder / name).write_bytes(data)
    files = {**result.files, name: file_digest(run / result.folder / name)}
    forge_trial(run, key, files=files)


def forge_trial(run: Path, key: str, **fields) -> None:
    def change(event):
        return replaced(event, result=replaced(event.result, **fields)) if event.result.key == key else event

    forge(run, TrialEnded, change)


def test_a_trial_of_another_recipe_is_found_by_its_own_file(run):
    other = run / "trials/prove--block-2--A/recipe.yaml"
    rewrite(run, "prove/block-2/B", "recipe.yaml", other.read_bytes())
    bad = failing(run)
    assert (bad.name, bad.file) == ("identity", "trials/prove--block-2--B/recipe.yaml")


def test_a_trial_whose_recipe_cannot_be_read_is_named(run):
    rewrite(run, "noise/block-1/A", "recipe.yaml", b"name: [")
    bad = failing(run)
    assert (bad.name, bad.file) == ("identity", "trials/noise--block-1--A/recipe.yaml")


def test_a_trial_without_its_recipe_is_named(run):
    files = replay(read_events(run)).results["noise/block-1/A"].files
    (run / "trials/noise--block-1--A/recipe.yaml").unlink()
    forge_trial(run, "noise/block-1/A", files={name: files[name] for name in files if name != "recipe.yaml"})
    assert failing(run).name == "identity"


def test_arms_of_a_block_with_two_seeds_are_found(run):
    forge_trial(run, "prove/block-3/B", seed=8)
    bad = failing(run)
    assert (bad.name, bad.detail) == (
        "identity", "prove final: prove/block-3/A has seed 7, prove/block-3/B has 8."
    )  # fmt: skip


def test_a_proof_of_another_recipe_than_the_final_one_is_found(run):
    forge(run, RunClosed, lambda event: replaced(event, recipe_hash="0" * 16))
    assert "prove final: prove/block-1/B is B but served recipe" in failing(run).detail


def test_a_result_without_a_final_recipe_is_found(run):
    forge(run, RunClosed, lambda event: replaced(event, recipe_hash=""))
    assert failing(run).detail == "the run ended with a result but names no final recipe."


def test_a_proof_against_something_else_than_the_baseline_is_found(run):
    """Arms from the confirming blocks of the discarded lever: sound blocks, but not of the baseline."""
    forge(run, Decided, lambda event: replaced(event, trials=(event.trials[1], event.trials[0], *event.trials[2:])))
    assert "identity" in {check.name for check in verify_run(run) if not check.ok}


def test_a_block_that_counts_twice_is_found(run):
    forge(run, Decided, lambda event: replaced(event, trials=(*event.trials[:8], *event.trials[:2])))
    (identity, *_) = [check for check in verify_run(run) if not check.ok]
    assert identity.detail == "prove final: a trial stands in more than one block, or in half a block."


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
