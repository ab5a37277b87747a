"""Options whose values are wrong are refused in words."""

import pytest

from servesmith.cli.common import budget_seconds
from servesmith.cli.compare import _looks
from servesmith.errors import InputError


@pytest.mark.parametrize("text", ["²", "4,²", "", "4,,6", "9" * 5000])
def test_looks_that_are_no_numbers(text):
    with pytest.raises(InputError, match="--looks"):
        _looks(text)


def test_looks():
    assert _looks("4, 6,8") == (4, 6, 8)


@pytest.mark.parametrize("text", ["0s", "0", "0h0m", "9" * 400])
def test_a_budget_without_time(text):
    with pytest.raises(InputError, match="--budget"):
        budget_seconds(text)


def test_budgets():
    assert budget_seconds("") == 0.0
    assert budget_seconds("1h30m") == 5400.0
