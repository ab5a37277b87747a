"""One trial: its folder, and what becomes of errors inside."""

import os
import signal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servesmith.errors import InputError, MachineError, Problem
from servesmith.load.probe import identify
from servesmith.recipe.model import Recipe
from servesmith.store.watch import Silent
from servesmith.trial import Order, Site, folder_name, run_trial

SIM = Recipe(name="sim", engine="sim")

keys = st.lists(st.text("ab-./_ %~é", max_size=5), min_size=1, max_size=3).map("/".join)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("prove/1a2b3c/block-1/A", "prove--1a2b3c--block-1--A"),
        ("confirm/parallel=8,x_1.5/B", "confirm--parallel=8,x_1.5--B"),
        ("a b", "a%20b"),
        ("a--b", "a%2D%2Db"),
        ("..", "%2E."),
    ],
)
def test_folder_names(key, name):
    assert folder_name(key) == name


@given(keys, keys)
@example("a b", "a_b")
@example("a--b", "a/b")
@example("a-/b", "a/-b")
@example("a~", "a%7E")
def test_no_two_keys_share_a_folder(one, other):
    assert (folder_name(one) == folder_name(other)) == (one == other)
    assert "/" not in folder_name(one)
    assert folder_name(one) not in (".", "..")


class Refuses(msgspec.Struct, frozen=True):
    """An errand that cannot use the server."""

    of_input: bool

    def run(self, desk):
        raise (
            InputError(Problem("no tokens.", "Ask less.")) if self.of_input else MachineError("no tokens.", "Ask less.")
        )


class Kills(msgspec.Struct, frozen=True):
    """An errand under which the server dies after its first token."""

    def run(self, desk):
        os.kill(desk.pid, signal.SIGKILL)
        while True:
            identify(desk.url)


@pytest.mark.parametrize("of_input", [True, False])
def test_an_error_at_a_server_that_was_up_is_a_failed_trial(tmp_path, of_input):
    result = run_trial(Order("a/b", SIM, Refuses(of_input), 1), Site(tmp_path, Silent()))
    assert (result.ending, result.failure) == ("failed", "requests-failed")
    assert "no tokens" in result.log_line
    assert result.ready_seconds > 0
    assert "outcome.json" in " ".join(result.files)


def test_a_server_that_dies_after_its_first_token_has_crashed(tmp_path):
    result = run_trial(Order("a/b", SIM, Kills(), 1), Site(tmp_path, Silent()))
    assert (result.ending, result.failure) == ("failed", "crash")


def test_what_keeps_a_server_from_starting_is_raised(tmp_path):
    gone = Recipe(name="a", engine="llamacpp", model="m", executable=("no-such-server-here",))
    with pytest.raises(MachineError, match="no-such-server-here"):
        run_trial(Order("a", gone, Kills(), 1), Site(tmp_path, Silent()))


def test_a_server_of_someone_else_that_cannot_be_used_is_raised(tmp_path):
    other = Recipe(name="a", engine="endpoint", url="http://127.0.0.1:9")
    with pytest.raises(MachineError, match="no tokens"):
        run_trial(Order("a", other, Refuses(of_input=False), 1), Site(tmp_path, Silent()))
