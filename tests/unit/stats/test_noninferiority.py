"""Tango's interval against published examples, the exact size, powerless tasks, and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.stats.distributions import norm_quantile
from servesmith.stats.noninferiority import (
    Gate,
    assay_sensitive,
    critical_value,
    judge_gate,
    judge_items,
    lower_bound,
    pass_probability,
    tango_statistic,
)
from servesmith.stats.plan import items_needed

GATE = Gate(margin=0.05, alpha=0.05, chance=0.0)


def answers(items, both, a_only, b_only):
    """A and B with these counts of items right in both, in A only, in B only."""
    neither = items - both - a_only - b_only
    a = [True] * (both + a_only) + [False] * (b_only + neither)
    b = [True] * both + [False] * a_only + [True] * b_only + [False] * neither
    return a, b


@pytest.mark.parametrize(
    ("b_only", "a_only", "items", "low", "high"),
    [
        # Fagerland, Lydersen, Laake 2014, airway hyper-responsiveness (Bentur 2009), table 1 1 / 7 12: their table V.
        (1, 7, 21, -0.517, -0.026),
        # Complete response (Cavo 2012), table 59 6 / 16 80: as the R package contingencytables prints it.
        (6, 16, 161, -0.1240, -0.0054),
    ],
)
def test_tango_interval_of_published_examples(b_only, a_only, items, low, high):
    z = norm_quantile(0.975)
    digits = 3 if items == 21 else 4
    assert round(lower_bound(b_only, a_only, items, z), digits) == low
    assert round(-lower_bound(a_only, b_only, items, z), digits) == high


def test_mcnemar_of_the_published_example():
    a, b = answers(161, 59, 16, 6)
    assert judge_items("t", a, b, 0.05, 0.05, 0.0).mcnemar_p == pytest.approx(0.052479, abs=1e-6)


@settings(deadline=None)
@given(st.integers(1, 200), st.data())
def test_the_bound_is_where_the_statistic_meets_the_critical_value(items, data):
    b_only = data.draw(st.integers(0, items))
    a_only = data.draw(st.integers(0, items - b_only))
    low = lower_bound(b_only, a_only, items, 1.645)
    assert -1 <= low <= (b_only - a_only) / items
    if low > -0.999 and (a_only or b_only):
        value = tango_statistic(np.asarray(float(b_only)), np.asarray(float(a_only)), items, low)
        assert float(value) == pytest.approx(1.645, abs=1e-3)


@given(st.integers(60, 200), st.data())
@settings(deadline=None)
def test_passing_is_the_bound_above_minus_the_margin_and_swaps_never_both_fail(items, data):
    a_only = data.draw(st.integers(0, 20))
    b_only = data.draw(st.integers(0, 20))
    a, b = answers(items, items - a_only - b_only, a_only, b_only)
    verdict = judge_gate("t", a, b, GATE)
    mirrored = judge_gate("t", b, a, GATE)
    if verdict.says != "powerless":
        assert (verdict.says == "pass") == (verdict.low > -GATE.margin)
    assert (verdict.says, mirrored.says) != ("fail", "fail")
    assert verdict.difference == pytest.approx(-mirrored.difference)


@given(st.integers(0, 15), st.integers(0, 15))
@settings(deadline=None)
def test_one_more_lost_answer_never_helps(a_only, b_only):
    better = lower_bound(b_only, a_only, 100, 1.7)
    assert lower_bound(b_only, a_only + 1, 100, 1.7) < better
    assert lower_bound(b_only + 1, a_only, 100, 1.7) > better


@pytest.mark.parametrize(("items", "margin"), [(60, 0.05), (100, 0.05), (214, 0.05), (250, 0.02), (1319, 0.02)])
def test_a_harm_of_one_margin_passes_with_at_most_alpha_at_every_discordance(items, margin):
    gate = Gate(margin=margin, alpha=0.05, chance=0.0)
    for discordance in np.geomspace(margin, 1.0, 137):  # finer than the grid of critical_value
        assert pass_probability(items, gate, float(discordance), -margin) <= 0.0505
    assert critical_value(items, margin, 0.05) >= norm_quantile(0.95)


def test_without_the_exact_size_the_plain_quantile_would_pass_too_often():
    """The reason for critical_value: 3 % of 200 items, all change is harm; at most 2 lost passes by the quantile."""
    lost = np.arange(201.0)
    passes = tango_statistic(np.zeros_like(lost), lost, 200, -0.03) > norm_quantile(0.95)
    draws = np.random.default_rng(1).binomial(200, 0.03, 100_000)
    assert passes[draws].mean() > 0.055


@pytest.mark.parametrize(("items", "discordance", "margin"), [(500, 0.06, 0.02), (200, 0.10, 0.03), (250, 0.05, 0.05)])
def test_simulated_equal_and_harmed_arms(items, discordance, margin):
    runs = 40_000
    gate = Gate(margin=margin, alpha=0.05, chance=0.0)
    draw = np.random.default_rng(items)
    critical = critical_value(items, margin, 0.05)

    def passed(difference):
        cells = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
        counts = draw.multinomial(items, cells, runs).astype(float)
        return (tango_statistic(counts[:, 0], counts[:, 1], items, -margin) > critical).mean()

    error = 3 * np.sqrt(0.25 / runs)
    assert passed(0.0) == pytest.approx(pass_probability(items, gate, discordance, 0.0), abs=error)
    assert passed(-margin) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


def test_the_one_sided_bound_covers_as_often_as_it_says():
    draw = np.random.default_rng(9)
    counts = draw.multinomial(300, [0.03, 0.05, 0.92], 20_000).astype(float)
    statistic = tango_statistic(counts[:, 0], counts[:, 1], 300, -0.02)  # at the truth
    assert (statistic > norm_quantile(0.95)).mean() == pytest.approx(0.05, abs=0.008)


def test_each_word():
    assert judge_items("t", *answers(400, 360, 2, 2), 0.05, 0.05, 0.0).says == "pass"
    assert judge_items("t", *answers(400, 300, 60, 2), 0.05, 0.05, 0.0).says == "fail"
    undecided = judge_items("t", *answers(100, 80, 4, 4), 0.05, 0.05, 0.0)
    assert undecided.says == "undecided"
    assert "more items would tell" in undecided.because
    assert (undecided.items, undecided.a_right, undecided.b_right) == (100, 84, 84)


def test_near_chance_is_powerless_whatever_b_did():
    at_chance = answers(2000, 1400, 0, 0)  # 70 % right, chance 50 %, five margins are 25 points
    verdict = judge_items("yesno", *at_chance, 0.05, 0.05, 0.5)
    assert verdict.says == "powerless"
    assert "within 5 margins" in verdict.because
    assert judge_items("yesno", *answers(2000, 1500, 0, 0), 0.05, 0.05, 0.5).says == "pass"  # exactly five margins


def test_too_few_items_are_powerless_even_for_an_identical_b():
    assert judge_items("t", *answers(58, 58, 0, 0), 0.05, 0.05, 0.0).says == "powerless"  # 0.95^58 > 0.05
    assert judge_items("t", *answers(59, 59, 0, 0), 0.05, 0.05, 0.0).says == "pass"  # 0.95^59 < 0.05


@pytest.mark.parametrize("items", [59, 100, 214, 500])
@pytest.mark.parametrize("extra", [0.0, 0.03])
def test_the_planted_harm_never_passes_where_the_assay_is_called_sensitive(items, extra):
    a = [True] * items
    assert assay_sensitive(a, 0.05, 0.05, extra)
    harm = -(-items * 5 // 100)
    b = [False] * harm + [True] * (items - harm)
    assert judge_gate("t", a, b, Gate(margin=0.05, alpha=0.05, chance=0.0, aa_discordance=extra)).says != "pass"


def test_an_assay_without_enough_right_answers_to_lose_is_not_sensitive():
    assert not assay_sensitive([True] * 4 + [False] * 96, 0.05, 0.05)
    assert assay_sensitive([True] * 10 + [False] * 90, 0.05, 0.05)
    assert not assay_sensitive([True] * 10 + [False] * 90, 0.05, 0.05, aa_discordance=0.2)


def test_power_is_of_an_equal_b_at_the_larger_of_noise_and_margin():
    quiet = judge_items("t", *answers(300, 300, 0, 0), 0.05, 0.05, 0.0)
    assert quiet.power == pytest.approx(pass_probability(300, GATE, 0.05, 0.0))
    noisy = judge_gate("t", *answers(300, 300, 0, 0), Gate(margin=0.05, alpha=0.05, chance=0.0, aa_discordance=0.15))
    assert noisy.power == pytest.approx(pass_probability(300, GATE, 0.15, 0.0))
    assert noisy.power < quiet.power


@pytest.mark.parametrize(("margin", "discordance"), [(0.05, 0.05), (0.02, 0.06), (0.03, 0.10)])
def test_items_needed_reach_their_power(margin, discordance):
    gate = Gate(margin=margin, alpha=0.05, chance=0.0)
    items = items_needed(margin, discordance, 0.05, 0.90)
    assert pass_probability(items, gate, discordance, 0.0) >= 0.90
    assert pass_probability(round(items * 0.85), gate, discordance, 0.0) < 0.90


def test_unpaired_items_and_nonsense_are_refused():
    with pytest.raises(InputError, match="Task copy: A answered 2 items and B 1"):
        judge_items("copy", [True, False], [True], 0.05, 0.05, 0.0)
    with pytest.raises(InputError):
        judge_items("copy", [], [], 0.05, 0.05, 0.0)
    for bad in ({"margin": 0.0}, {"alpha": 0.6}, {"chance": 1.0}):
        with pytest.raises(ValueError):
            Gate(**({"margin": 0.05, "alpha": 0.05, "chance": 0.0} | bad))
