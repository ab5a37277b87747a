"""The rules of judging, their properties, and what they do over many simulated comparisons."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.stats.distributions import t_quantile
from servesmith.stats.rules import Rules
from servesmith.stats.sample import SD_FLOOR
from servesmith.stats.sequential import SAYS, as_change, holm, judge, judge_fixed, judge_many, next_look, p_value

RULES = Rules()
BLOCK_SD = math.sqrt(2 * (0.01**2 + 0.01**2))
"""Block noise at restart 1 % and run 1 %: both arms carry both."""

ratios = st.lists(st.floats(-0.3, 0.3), min_size=0, max_size=14)
at_look = st.sampled_from(RULES.looks).flatmap(lambda n: st.lists(st.floats(-0.3, 0.3), min_size=n, max_size=n))


def blocks_of(mean, sd, count):
    """A sample with exactly this mean and standard deviation."""
    shape = np.array([(-1.0) ** i for i in range(count)])
    shape -= shape.mean()
    return tuple(float(x) for x in mean + shape / shape.std(ddof=1) * sd)


def test_each_word_from_a_sample_made_for_it():
    assert judge(blocks_of(0.10, 0.02, 4), "m", RULES).says == "better"
    assert judge(blocks_of(-0.10, 0.02, 4), "m", RULES).says == "worse"
    assert judge(blocks_of(0.0, 0.005, 4), "m", RULES).says == "same"
    assert judge(blocks_of(0.03, 0.02, 4), "m", RULES).says == "undecided"


@pytest.mark.parametrize("look", RULES.looks)
def test_better_begins_exactly_where_the_lower_bound_leaves_zero(look):
    edge = t_quantile(0.99, look - 1) * 0.02 / math.sqrt(look)
    assert judge(blocks_of(edge * 1.001, 0.02, look), "m", RULES).says == "better"
    assert judge(blocks_of(edge * 0.999, 0.02, look), "m", RULES).says == "undecided"
    assert judge(blocks_of(-edge * 1.001, 0.02, look), "m", RULES).says == "worse"


@pytest.mark.parametrize("look", RULES.looks)
def test_same_begins_exactly_where_the_upper_bound_passes_the_practical_minimum(look):
    edge = math.log(1.01) - t_quantile(0.9, look - 1) * 0.02 / math.sqrt(look)
    assert judge(blocks_of(edge - 1e-5, 0.02, look), "m", RULES).says == "same"
    assert judge(blocks_of(edge + 1e-5, 0.02, look), "m", RULES).says == "undecided"


@settings(deadline=None)
@given(ratios)
def test_nothing_is_decided_before_four_blocks_between_looks_or_after_the_last(values):
    assume(len(values) not in RULES.looks)
    verdict = judge(values, "m", RULES)
    assert verdict.says == "undecided"
    assert verdict.because
    assert (verdict.effect is None) == (len(values) < 2)


def test_waiting_says_for_what():
    assert "the next look is at 4" in judge([0.1] * 3, "m", RULES).because
    assert "the next look is at 6" in judge([0.1] * 5, "m", RULES).because
    assert "more than the last look at 12" in judge([0.1] * 13, "m", RULES).because
    assert [next_look(n, RULES) for n in (0, 4, 5, 11, 12)] == [4, 6, 6, 12, None]


@settings(deadline=None)
@given(at_look)
def test_swapping_the_arms_mirrors_the_verdict(values):
    one, other = judge(values, "m", RULES), judge([-value for value in values], "m", RULES)
    assert (one.says == "better") == (other.says == "worse")
    assert one.effect.ratio == pytest.approx(1 / other.effect.ratio)
    assert one.effect.low == pytest.approx(1 / other.effect.high)
    assert one.detectable == pytest.approx(other.detectable)


@settings(deadline=None)
@given(at_look, st.floats(0.001, 0.3))
def test_a_better_b_never_gets_a_worse_verdict(values, lift):
    rank = {"worse": 0, "same": 1, "undecided": 2, "better": 3}
    before, after = judge(values, "m", RULES), judge([value + lift for value in values], "m", RULES)
    assert rank[after.says] >= rank[before.says]


@settings(deadline=None)
@given(at_look)
def test_the_order_of_blocks_does_not_matter(values):
    assert judge(values, "m", RULES).says == judge(values[::-1], "m", RULES).says


@settings(deadline=None)
@given(at_look)
def test_the_interval_agrees_with_the_word(values):
    verdict = judge(values, "m", RULES)
    assert verdict.effect.low <= verdict.effect.ratio <= verdict.effect.high
    assert (verdict.effect.low > 1) == (verdict.says == "better")
    assert (verdict.effect.high < 1) == (verdict.says == "worse")


def test_identical_blocks_are_same_when_zero_and_need_more_than_the_floor_to_be_better():
    assert judge([0.0] * 4, "m", RULES).says == "same"
    reach = t_quantile(0.99, 3) * SD_FLOOR / 2
    assert judge([reach * 0.99] * 4, "m", RULES).says != "better"
    verdict = judge([0.05] * 4, "m", RULES)
    assert verdict.says == "better"
    assert verdict.effect.low < verdict.effect.ratio
    assert any("agree to better than 0.1 %" in doubt for doubt in verdict.doubts)


def test_a_broken_limit_forbids_better_and_nothing_else():
    limit = ("ttft_p95: the 95 % upper bound is 2.4, the limit 2",)
    verdict = judge(blocks_of(0.10, 0.02, 4), "m", RULES, limit_breaches=limit)
    assert verdict.says == "undecided"
    assert limit[0] in verdict.because
    assert judge(blocks_of(-0.10, 0.02, 4), "m", RULES, limit_breaches=limit).says == "worse"
    assert judge(blocks_of(0.0, 0.005, 4), "m", RULES, limit_breaches=limit).says == "same"


def test_same_says_whether_a_loss_may_hide():
    assert "so is a loss of that size" in judge(blocks_of(0.0, 0.002, 4), "m", RULES).because
    assert "may still be a loss of up to 6.7 %" in judge(blocks_of(-0.03, 0.0171, 4), "m", RULES).because


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_refused_with_their_block(bad):
    with pytest.raises(InputError, match="Block 3"):
        judge([0.1, 0.1, bad, 0.1], "m", RULES)


def test_doubts_name_the_outlier_with_the_effect_without_it_and_few_blocks():
    doubts = judge([0.010, 0.012, 0.008, 0.011, 0.009, 0.30], "m", RULES).doubts
    assert any("Block 6 (+35.0 %)" in doubt and "+1.0 %" in doubt for doubt in doubts)
    assert not any("uncertain" in doubt for doubt in doubts)
    assert any("4 blocks is uncertain" in doubt for doubt in judge(blocks_of(0.1, 0.02, 4), "m", RULES).doubts)


def test_rules_that_make_no_sense_are_refused():
    for bad in ({"looks": ()}, {"looks": (3, 6)}, {"looks": (6, 4)}, {"looks": (4, 4)}, {"alpha": 0.0}, {"alpha": 0.5}):
        with pytest.raises(ValueError):
            Rules(**bad)


def test_confidence_is_only_claimed_where_it_was_simulated():
    assert RULES.confidence == 0.95
    assert Rules(looks=(4, 6)).confidence == 0.96
    assert Rules(alpha=0.02).confidence == 0.8
    assert Rules(looks=(4, 8, 16, 32, 64)).confidence == 0.9


def test_fixed_blocks_are_judged_by_the_plain_interval():
    values = blocks_of(0.03, 0.02, 5)
    verdict = judge_fixed(values, "m", RULES)
    reach = t_quantile(0.975, 4) * 0.02 / math.sqrt(5)
    assert verdict.says == "better"
    assert verdict.effect.low == pytest.approx(math.exp(0.03 - reach))
    assert verdict.effect.confidence == 0.95
    assert judge_fixed(values[:3], "m", RULES).says == "undecided"


@pytest.mark.parametrize("blocks", [0, 1, 5, 7])
def test_another_number_of_blocks_than_was_planned_decides_nothing(blocks):
    values = [0.05 + 0.001 * (-1) ** number for number in range(blocks)]
    verdict = judge_fixed(values, "m", RULES, planned=6)
    assert verdict.says == "undecided"
    assert f"{blocks} blocks instead of the 6" in verdict.because
    assert verdict.log_ratios == tuple(values)


def test_the_planned_number_of_blocks_is_judged_as_ever():
    values = blocks_of(0.03, 0.02, 6)
    assert judge_fixed(values, "m", RULES, planned=6) == judge_fixed(values, "m", RULES)


def test_p_value_agrees_with_the_fixed_verdict():
    values = blocks_of(0.03, 0.02, 5)
    assert p_value(values) < 0.025
    assert p_value([-value for value in values]) == pytest.approx(1 - p_value(values))
    assert p_value([0.05] * 4) > 0  # the floor keeps certainty away


def test_holm_worked_example():
    # Holm 1979 by hand: 0.010 <= .05/4, 0.013 <= .05/3, 0.030 > .05/2, and then all larger ones fall too.
    assert holm({"c": 0.030, "a": 0.010, "d": 0.040, "b": 0.013}) == {"c": False, "a": True, "d": False, "b": True}
    assert holm({}) == {}
    with pytest.raises(ValueError):
        holm({"a": math.nan})


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_holm_lies_between_bonferroni_and_no_correction(p_values, alpha):
    stands = holm(p_values, alpha)
    for name, value in p_values.items():
        assert stands[name] <= (value <= alpha)
        assert stands[name] >= (value <= alpha / len(p_values))


def test_as_change():
    assert [as_change(value) for value in (math.log(1.03), -0.5, 0.0)] == ["+3.0 %", "-39.3 %", "+0.0 %"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([-0.02, 0.0, 0.02, 0.05]), st.sampled_from([0.0, 0.003, 0.02, 0.1]))
def test_the_vectorised_simulation_is_judge_block_by_block(seed, effect, sd):
    samples = np.random.default_rng(seed).normal(effect, sd, (5, RULES.last))
    codes, blocks = judge_many(samples, RULES)
    for row, code, taken in zip(samples.tolist(), codes, blocks, strict=True):
        verdicts = [(look, judge(row[:look], "m", RULES).says) for look in RULES.looks]
        stopped = next(((look, says) for look, says in verdicts if says != "undecided"), (RULES.last, "undecided"))
        assert stopped == (taken, SAYS[code])


def simulated(effect, *, runs, seed, sd=BLOCK_SD):
    codes, blocks = judge_many(np.random.default_rng(seed).normal(effect, sd, (runs, RULES.last)), RULES)
    return {says: float((codes == code).mean()) for code, says in enumerate(SAYS)} | {"blocks": float(blocks.mean())}


def upper_limit(share, runs):
    """95 % upper limit of a simulated share."""
    return share + 1.645 * math.sqrt(share * (1 - share) / runs)


def test_equal_arms_are_called_different_in_under_five_per_cent():
    runs = 40_000
    shares = simulated(0.0, runs=runs, seed=11)
    assert upper_limit(shares["better"] + shares["worse"], runs) < 0.05
    assert shares["same"] > 0.6


def test_three_per_cent_is_found_in_95_of_100_with_few_blocks():
    shares = simulated(math.log(1.03), runs=20_000, seed=12)
    assert shares["better"] > 0.95
    assert shares["blocks"] < 7


@pytest.mark.parametrize("sd", [0.005, 0.05, 0.3])
def test_false_claims_stay_under_five_per_cent_at_other_noise_too(sd):
    shares = simulated(0.0, runs=40_000, seed=13, sd=sd)
    assert upper_limit(shares["better"] + shares["worse"], 40_000) < 0.05


def test_the_interval_covers_the_truth_at_the_look_where_the_rules_stop():
    runs = 20_000
    for effect in (0.0, 0.01, 0.03):
        samples = np.random.default_rng(14).normal(effect, BLOCK_SD, (runs, RULES.last))
        _, blocks = judge_many(samples, RULES)
        covered = 0
        for look in RULES.looks:
            seen = samples[blocks == look, :look]
            reach = t_quantile(0.99, look - 1) * seen.std(axis=1, ddof=1) / math.sqrt(look)
            covered += int((np.abs(seen.mean(axis=1) - effect) <= reach).sum())
        assert covered / runs > RULES.confidence
