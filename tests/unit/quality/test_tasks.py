import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.quality.tasks.base import Generated, normalise
from servesmith.quality.tasks.builtin import DEFAULT, TASKS, choose_tasks

every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


@every_task
def test_items_hang_on_the_seed_alone_and_few_are_a_prefix_of_many(task):
    assert task.items(5, 40) == task.items(5, 40)
    assert task.items(5, 40)[:15] == task.items(5, 15)
    assert task.items(5, 40) != task.items(6, 40)


@every_task
def test_no_item_comes_twice_or_is_an_example(task):
    items = task.items(1, 200)
    prompts = {item.prompt for item in items}
    assert len(prompts) == 200
    assert not prompts & {prompt for prompt, _ in items[0].examples}


@every_task
def test_expected_answers_are_right_and_others_wrong(task):
    items = task.items(2, 50)
    for item, other in itertools.pairwise(items):
        assert task.score(item, item.expected)
        assert task.score(item, f"  {item.expected.upper()}. ")
        assert task.score(item, other.expected) == (normalise(other.expected) == normalise(item.expected))
        assert not task.score(item, "")
        assert not task.score(item, item.expected[:-1] + "zz")


def test_expected_answers_are_true():
    tasks = {task.name: task.items(3, 100) for task in TASKS}
    for item in tasks["arithmetic"]:
        first, second = map(int, re.findall(r"\d+", item.prompt))
        assert item.expected.endswith(f"= {first + second}")
    for item in tasks["sort"]:
        assert item.expected.split() == sorted(item.prompt.split()[1:], key=int)
    for item in tasks["yesno"]:
        colour, asked = re.findall(r"has a (\w+) .* (\w+)\?", item.prompt)[0]
        assert item.expected == ("yes" if colour == asked else "no")
    for item in tasks["recall"]:
        assert item.expected.rstrip(".").split(" ")[-1].replace("old", "years") in item.prompt


def test_chance_is_what_guessing_reaches():
    yes = sum(item.expected == "yes" for item in choose_tasks(["yesno"])[0].items(0, 400))
    assert 160 < yes < 240


def test_the_default_set_is_known_and_names_can_be_chosen():
    assert tuple(task.name for task in choose_tasks()) == DEFAULT
    assert [task.name for task in choose_tasks(["yesno", "copy"])] == ["yesno", "copy"]


def test_all_wrong_names_are_told_at_once():
    with pytest.raises(InputError) as caught:
        choose_tasks(["copi", "gsm", "copy", "copy"])
    assert len(caught.value.problems) == 3
    assert "copi" in str(caught.value)
    assert "arithmetic" in str(caught.value)


def test_a_task_that_runs_out_says_so():
    coin = Generated(name="coin", chance=0.5, draw=lambda rng: (rng.choice("ab"), "x"), max_tokens=1)
    assert len(coin.items(0, 2)) == 2
    with pytest.raises(InputError, match="fewer than 3 different items"):
        coin.items(0, 3)


@given(st.text())
def test_normalising_twice_is_normalising_once(text):
    assert normalise(normalise(text)) == normalise(text)


def test_inner_punctuation_and_order_matter():
    assert normalise("  Yes,  it IS. ") == "yes, it is"
    assert normalise("1 2 3") != normalise("1 3 2")
    assert normalise("12") != normalise("1 2")
