"""One trial: its folder, and what becomes of errors inside."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servesmith.trial import folder_name

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
