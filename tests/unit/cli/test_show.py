import json
import os
from pathlib import Path

import pytest
import rundata

from servesmith.cli import show
from servesmith.errors import EvidenceError, InputError, Problem
from servesmith.recipe.model import Case, Recipe
from servesmith.report.index import index
from servesmith.report.page import write_report
from servesmith.report.summary import read_summary, summarise
from servesmith.store.journal import read_events
from servesmith.store.verify import Check

GOLDEN = Path(__file__).parents[2] / "golden" / "show"


def told(capsys) -> str:
    """What went to stdout, without the padding at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())


def compare_golden(name: str, text: str) -> None:
    """Compare with the golden file; with UPDATE_GOLDEN=1 write it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("tune", rundata.tuned_run),
        ("tune-two-levers", lambda folder: rundata.tuned_run(folder, ("parallel=8", "batch=1024"))),
        ("compare", rundata.compared_run),
        ("bench", rundata.benched_run),
        ("bench-failed", lambda folder: rundata.benched_run(folder, failure="out-of-memory")),
        ("bench-several", rundata.benched_thrice),
        ("unfinished", rundata.cut_run),
    ],
)
def test_summaries_as_a_person_sees_them(tmp_path, capsys, name, make):
    make(tmp_path / "run")
    show.summary(summarise(read_events(tmp_path / "run")))
    compare_golden(f"{name}.txt", told(capsys))


def test_a_pipe_gets_no_colour_codes(tuned, capsys):
    show.summary(summarise(read_events(tuned)))
    assert "\x1b" not in capsys.readouterr().out


def test_a_summary_ends_with_what_pins_its_journal(tuned, capsys):
    summary = read_summary(tuned)
    assert len(summary.journal) == 32
    show.summary(summary)
    assert f"journal     {summary.journal} (checksum" in told(capsys)


def test_json_is_one_document_on_stdout_alone(tuned_copy, capsys):
    summary = write_report(tuned_copy)
    show.json(summary)
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads((tuned_copy / "summary.json").read_text())
    assert err == ""


def test_json_knows_recipes_problems_and_paths(capsys):
    case = Case(recipe=Recipe(name="x", engine="sim"))
    show.json({"case": case, "problems": [Problem("m", "r")], "run": Path("runs/1")})
    found = json.loads(capsys.readouterr().out)
    assert found["case"]["recipe"]["name"] == "x"
    assert found["problems"][0]["remedy"] == "r"
    assert found["run"] == "runs/1"


def test_json_refuses_what_it_does_not_know():
    with pytest.raises(NotImplementedError):
        show.json(object())


def test_errors_are_a_paragraph_each_on_stderr_and_never_wrapped(capsys):
    long = "m" * 300
    show.error(InputError(Problem(long, "Do this.", "a.yaml", 3, "load"), Problem("second.", "Do that.")))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: a.yaml:3: load: {long} Do this.\nerror: second. Do that.\n"


def test_other_errors_name_their_remedy(capsys):
    show.error(EvidenceError("requests.parquet", "was changed.", "Restore it."))
    assert capsys.readouterr().err == "error: requests.parquet: was changed. Restore it.\n"


def test_problems_found_by_check_are_results_and_so_on_stdout(capsys):
    show.problems([Problem("m", "r", "a.yaml", 2, "flags.x")], clean="nothing")
    assert capsys.readouterr().out == "a.yaml:2: flags.x: m r\n"
    show.problems([], clean="nothing")
    assert capsys.readouterr().out == "nothing\n"


def test_checks_are_listed_and_a_failure_stands_out(capsys):
    show.checks([Check("files", ok=True, detail="224 files")])
    assert "ok   224 files" in (good := told(capsys))
    assert "Recomputed and found as told: metrics, verdicts, gates, summary, page." in good
    show.checks([Check("files", ok=False, detail="was changed", file="x")])
    assert "FAIL was changed" in (bad := told(capsys))
    assert "The evidence does not hold." in bad


def test_runs_are_listed(tmp_path, capsys):
    show.runs(index(tmp_path), tmp_path)
    assert capsys.readouterr().out == f"There are no runs in {tmp_path}.\n"
    rundata.benched_run(tmp_path / "run-1")
    show.runs(index(tmp_path), tmp_path)
    assert "bench" in (out := told(capsys))
    assert "run-1" in out


class FakeRun:
    """What `ending` needs of a run."""

    def __init__(self, verb: str) -> None:
        self.folder = Path("runs/x")
        self.closed = 0
        self.watch = self.journal = self.opened = self
        self.verb = verb
        self.errors: list[Exception] = []
        self.shared = ""

    def broke_off(self, error: Exception) -> None:
        self.errors.append(error)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("verb", "resumable"), [("tune", True), ("compare", False)])
def test_a_run_that_breaks_off_says_how_to_go_on(capsys, verb, resumable):
    run = FakeRun(verb)
    with pytest.raises(KeyboardInterrupt), show.ending(run):
        raise KeyboardInterrupt
    err = capsys.readouterr().err
    assert run.closed == 1
    assert "kept in runs/x" in err
    assert ("servesmith tune --resume runs/x" in err) == resumable


def test_only_an_error_of_ours_is_recorded_as_the_end_of_a_run():
    run, error = FakeRun("compare"), EvidenceError("x", "was changed.")
    with pytest.raises(EvidenceError), show.ending(run):
        raise error
    with pytest.raises(KeyboardInterrupt), show.ending(run):
        raise KeyboardInterrupt
    assert run.errors == [error]


def test_a_run_beside_another_warns_before_it_measures(capsys):
    run = FakeRun("tune")
    run.shared = "Another servesmith measures here."
    with show.ending(run):
        assert capsys.readouterr().err == "warning: Another servesmith measures here.\n"


def test_a_run_that_ends_well_is_closed_without_a_word(capsys):
    run = FakeRun("tune")
    with show.ending(run):
        pass
    assert (run.closed, capsys.readouterr()) == (1, ("", ""))


def test_usage_bug_and_interruption_go_to_stderr(capsys):
    show.usage("no such option: --x", "servesmith tune")
    show.bug(Path("/somewhere/x.txt"))
    show.interrupted()
    out, err = capsys.readouterr()
    assert out == ""
    assert "See `servesmith tune --help`." in err
    assert "/somewhere/x.txt" in err
    assert err.endswith("Interrupted.\n")
