"""Which runs can be gone on with."""

import pytest
from virtual import SLOTS, case, clock, finish, resume, settings, start

from servesmith.cli import tune as verb
from servesmith.errors import InputError
from servesmith.recipe.model import Case
from servesmith.store.events import TrialStarted
from servesmith.store.journal import JOURNAL, read_events
from servesmith.store.watch import Silent
from servesmith.tune.bench import bench
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("torn", [b"", b'{"half'])
def test_a_run_of_another_verb_is_refused_and_left_alone(tmp_path, torn):
    of: Case = case()
    opened = open_run(Plan(verb="bench", case=of, settings=settings()), tmp_path, Silent(), clock)
    with opened.run.journal:
        bench(opened.run, of, 1)
    folder = opened.run.folder
    with (folder / JOURNAL).open("ab") as file:
        file.write(torn)
    before = contents(folder)
    with pytest.raises(InputError, match="bench"):
        resume(folder)
    assert contents(folder) == before


def test_there_is_no_run_here(tmp_path):
    with pytest.raises(InputError):
        resume(tmp_path)


def test_a_finished_run_only_reports_again(tmp_path):
    opened = start(tmp_path, (SLOTS,), noise_blocks=3, rounds=1)
    tuned = finish(opened)
    folder = opened.run.folder
    measured = [event for event in read_events(folder) if isinstance(event, TrialStarted)]
    again = resume(folder)
    with again.run.journal:
        assert verb._go(again, as_json=True) == 0
    assert [event for event in read_events(folder) if isinstance(event, TrialStarted)] == measured
    assert tuned.levers == ("slots-8",)
