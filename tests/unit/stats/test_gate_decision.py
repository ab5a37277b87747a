import numpy as np
import pytest

from servesmith.errors import InputError
from servesmith.stats.gate import POOLED, GateRules, TaskPair, judge_tasks, plan_items

RULES = GateRules()


def pair(task, items, right, lost=0, won=0, chance=0.0, **fields):
    """A: `right` of `items` right. B: the same, less `lost`, plus `won`."""
    a = [True] * right + [False] * (items - right)
    b = [False] * lost + [True] * (right - lost + won) + [False] * (items - right - won)
    return TaskPair(task=task, chance=chance, a=a, b=b, **fields)


def draw(rng, items, accuracy, discordance, harm):
    """Paired outcomes: B differs from A on `discordance` of the items and is worse by `harm`."""
    a = rng.random(items) < accuracy
    turn_wrong = (discordance + harm) / 2 / accuracy
    turn_right = (discordance - harm) / 2 / (1 - accuracy)
    chance = rng.random(items)
    b = np.where(a, chance >= turn_wrong, chance < turn_right)
    return a.tolist(), b.tolist()


def share_passed(discordance, harms, count=200):
    """Share of simulated gates over four tasks that pass, with the planner's items."""
    rng, items = np.random.default_rng(1), plan_items(RULES, max(discordance, RULES.margin), 4)
    passed = 0
    for _ in range(count):
        drawn = [draw(rng, items, 0.8, discordance, harm) for harm in harms]
        pairs = [TaskPair(task=str(i), chance=0.0, a=a, b=b) for i, (a, b) in enumerate(drawn)]
        passed += judge_tasks(pairs, RULES).passed
    return passed / count


@pytest.mark.parametrize("discordance", [0.0, 0.05, 0.10])
def test_an_equal_recipe_passes_as_planned(discordance):
    assert share_passed(discordance, [0.0] * 4) >= 0.90 - 0.055  # 2.6 standard errors of 200 draws


@pytest.mark.parametrize("discordance", [0.05, 0.10])
def test_a_recipe_worse_by_the_margin_seldom_passes(discordance):
    assert share_passed(discordance, [0.05] * 4) <= 0.05 + 0.04


def test_a_loss_of_the_margin_that_sits_in_one_task_seldom_passes():
    assert share_passed(0.20, [0.20, 0.0, 0.0, 0.0]) <= 0.05 + 0.04


def test_the_pool_is_last_and_counts_all_items():
    verdict = judge_tasks([pair("x", 100, 90), pair("y", 100, 80)], RULES)
    assert verdict.passed
    assert [(one.task, one.items, one.a_right) for one in verdict.tasks] == [
        ("x", 100, 90),
        ("y", 100, 80),
        (POOLED, 200, 170),
    ]


def test_tasks_with_too_few_items_alone_still_pass_together():
    verdict = judge_tasks([pair("x", 45, 40), pair("y", 45, 40), pair("z", 45, 40)], RULES)
    assert [one.says for one in verdict.tasks] == ["undecided", "undecided", "undecided", "pass"]
    assert verdict.passed


def test_too_few_items_together_pass_nothing():
    verdict = judge_tasks([pair("x", 20, 18), pair("y", 20, 18)], RULES)
    assert not verdict.passed
    assert verdict.tasks[-1].says == "powerless"
    assert "too few" in verdict.because


def test_near_chance_is_left_out_and_passes_nothing():
    weak = pair("guess", 200, 110, chance=0.5)
    assert not judge_tasks([weak], RULES).passed
    both = judge_tasks([weak, pair("x", 200, 180)], RULES)
    assert both.passed
    assert (both.tasks[0].says, both.tasks[-1].items) == ("powerless", 200)


def test_exactly_five_margins_above_chance_has_power():
    assert judge_tasks([pair("x", 200, 150, chance=0.5)], RULES).passed
    assert not judge_tasks([pair("x", 200, 149, chance=0.5)], RULES).passed


def test_one_task_that_shows_a_loss_vetoes_what_the_pool_would_pass():
    pairs = [pair("x", 200, 180, lost=10), *(pair(name, 200, 180) for name in "uvwyz")]
    verdict = judge_tasks(pairs, RULES)
    assert verdict.tasks[-1].says == "pass"
    assert verdict.tasks[0].says == "fail"
    assert not verdict.passed
    assert "x vetoes: a loss is shown: 10 items worse, 0 better" in verdict.because


def test_a_powerless_task_can_still_veto():
    verdict = judge_tasks([pair("guess", 200, 110, lost=40, chance=0.5), pair("x", 200, 180)], RULES)
    assert not verdict.passed
    assert verdict.tasks[0].says == "fail"


def test_a_baseline_that_fails_requests_is_no_reference():
    pairs = [pair("x", 190, 170, a_failed=11), pair("y", 10, 9)]
    verdict = judge_tasks(pairs, RULES)
    assert not verdict.passed
    assert "The baseline failed on 11 of 211 requests" in verdict.because
    assert judge_tasks([pair("x", 190, 170, a_failed=9)], RULES).passed


def test_no_task_and_no_items():
    with pytest.raises(InputError, match="no task"):
        judge_tasks([], RULES)
    assert not judge_tasks([TaskPair(task="x", chance=0.0, a=[], b=[], a_failed=5)], RULES).passed


def test_more_tasks_share_the_items_and_more_discordance_needs_more():
    one, four = plan_items(RULES, 0.05, 1), plan_items(RULES, 0.05, 4)
    assert 4 * four - 4 < one <= 4 * four
    assert plan_items(RULES, 0.10, 1) > 1.7 * one


@pytest.mark.parametrize("wrong", [{"margin": 0.0}, {"alpha": 0.6}, {"veto_alpha": 0.0}, {"power": 0.995}])
def test_senseless_rules_are_refused(wrong):
    with pytest.raises(ValueError, match="need"):
        GateRules(**wrong)
