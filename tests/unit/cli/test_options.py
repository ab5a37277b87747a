"""Options whose values are wrong are refused in words."""

import pytest

from servesmith.cli.common import budget_seconds, rival_case
from servesmith.cli.compare import _looks
from servesmith.cli.tune import _refuse_beside_resume
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


@pytest.mark.parametrize("name", ["load.streams", "workload.output_tokens", "goal.metric", "quality.items", "load"])
def test_what_both_share_cannot_be_set_for_b_alone(tmp_path, name):
    recipe = tmp_path / "b.yaml"
    recipe.write_text("name: b\nengine: sim\n")
    with pytest.raises(InputError, match="A's for both"):
        rival_case(recipe, [], [f"{name}=4"])
    assert rival_case(recipe, [], ["flags.slots=4"]).recipe.flags == {"slots": 4}
    assert rival_case(recipe, ["load.streams=4"], ["name=other"]).recipe.name == "other"


def test_options_that_a_resumed_run_would_not_heed_are_refused():
    _refuse_beside_resume(budget="", levers=None, only=[])
    with pytest.raises(InputError, match=r"--budget.*resumed") as refused:
        _refuse_beside_resume(budget="2h", allow_lossy=["x"])
    assert [problem.field for problem in refused.value.problems] == ["--budget", "--allow-lossy"]
