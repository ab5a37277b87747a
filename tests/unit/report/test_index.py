import rundata

from servesmith.report.index import index
from servesmith.store.journal import Journal


def test_runs_are_listed_newest_first_with_their_state(tmp_path):
    rundata.benched_run(tmp_path / "20261201-1")
    rundata.cut_run(tmp_path / "20261201-2")
    rundata.compared_run(tmp_path / "20261201-3")
    (tmp_path / "notes").mkdir()
    rows = index(tmp_path)
    assert [(row.verb, row.state, row.says) for row in rows] == [
        ("compare", "done", "worse"),
        ("tune", "unfinished", "none"),
        ("bench", "done", ""),
    ]


def test_a_run_that_is_being_written_runs(tmp_path):
    rundata.cut_run(tmp_path / "run")
    with Journal.resume(tmp_path / "run"):
        assert index(tmp_path)[0].state == "running"
    assert index(tmp_path)[0].state == "unfinished"


def test_a_broken_run_is_listed_and_not_raised(tmp_path):
    rundata.benched_run(tmp_path / "run")
    path = tmp_path / "run" / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"bench/1", b"bench/2", 1))
    (row,) = index(tmp_path)
    assert row.state == "broken"
    assert "line" in row.sentence


def test_no_folder_is_no_run(tmp_path):
    assert index(tmp_path / "nowhere") == ()
