"""One lock a machine: whoever comes second is told, and nobody is refused."""

import multiprocessing
import os

import msgspec
import rundata

from servesmith.report.summary import summarise
from servesmith.store.claim import claim
from servesmith.store.events import Resumed
from servesmith.store.journal import read_events

AT = "2026-12-01T12:00:00+00:00"


def hold(place, ready, done):
    assert claim(AT, place) == ""
    ready.set()
    done.wait(30)


def test_the_second_on_a_machine_is_told_of_the_first_until_that_one_ends(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done, place = context.Event(), context.Event(), tmp_path / "lock"
    first = context.Process(target=hold, args=(place, ready, done))
    first.start()
    try:
        assert ready.wait(30)
        told = claim("later", place)
        assert told.startswith(f"Another servesmith measures on this machine since {AT}, pid {first.pid}. ")
    finally:
        first.kill()
        first.join()
    assert claim("later", place) == ""
    assert place.read_text() == f"{os.getpid()} later\n"
    assert claim("later still", place) == "", "a process does not disturb itself"


def test_where_there_can_be_no_lock_there_is_no_word(tmp_path):
    assert claim(AT, tmp_path / "nowhere" / "lock") == ""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert claim(AT, tmp_path / "link") == ""
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_tells_who_was_there_as_it_began_and_as_it_went_on(tmp_path):
    run = rundata.cut_run(tmp_path / "run")
    first, *rest = read_events(run.folder)
    beside = msgspec.structs.replace(first, shared="Another one.")
    told = summarise([beside, *rest, Resumed(at=AT, shared="A third one."), Resumed(at=AT, shared="A third one.")])
    assert told.notes == ("Another one.", "A third one.")
