"""Log ratios and their spread."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.stats.sample import SD_FLOOR, log_ratios, outliers, sd, shrunken, spread

positive = st.floats(1e-3, 1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=1, max_size=12)


def test_positive_means_b_is_better_in_either_direction():
    assert log_ratios([100.0], [105.0], "higher")[0] == pytest.approx(math.log(1.05))
    assert log_ratios([100.0], [105.0], "lower")[0] == pytest.approx(-math.log(1.05))


@settings(deadline=None)
@given(pairs, st.floats(1e-3, 1e3))
def test_the_unit_of_the_metric_does_not_matter(blocks, factor):
    a, b = zip(*blocks, strict=True)
    scaled = log_ratios([x * factor for x in a], [y * factor for y in b], "higher")
    assert scaled == pytest.approx(log_ratios(a, b, "higher"), abs=1e-9)


@settings(deadline=None)
@given(pairs)
def test_swapping_the_arms_only_turns_the_sign(blocks):
    a, b = zip(*blocks, strict=True)
    assert log_ratios(b, a, "higher") == tuple(-value for value in log_ratios(a, b, "higher"))


def test_every_bad_value_is_named_with_its_block_and_arm():
    with pytest.raises(InputError) as caught:
        log_ratios([1.0, 0.0, 2.0], [1.0, 1.0, math.nan], "higher")
    assert [problem.message for problem in caught.value.problems] == [
        "Block 2: the metric of A is 0.0, which has no finite logarithm.",
        "Block 3: the metric of B is nan, which has no finite logarithm.",
    ]
    with pytest.raises(InputError, match="A has 1 blocks and B has 2"):
        log_ratios([1.0], [1.0, 2.0], "higher")


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_sd_is_numpys(values):
    assert sd(values) == pytest.approx(float(np.std(values, ddof=1)), abs=1e-12)


def test_identical_values_get_the_floor_and_say_so():
    sample = spread([0.03] * 4)
    assert (sample.sd, sample.floored) == (SD_FLOOR, True)
    assert not spread([0.03, 0.05]).floored


def test_one_wild_block_is_named_and_no_tame_one():
    assert outliers([0.01, 0.012, 0.009, 0.011, 0.2, 0.01]) == (4,)
    assert outliers([0.01, 0.012, 0.009, 0.011, 0.013, 0.01]) == ()
    assert outliers([0.0, 0.0, 0.0, 0.0]) == ()


def test_shrinking_keeps_the_ranking_and_takes_off_what_noise_explains():
    scores = {"a": 0.10, "b": 0.0, "c": -0.10}
    shrunk = shrunken(scores, noise_sd=0.05)
    assert shrunk == pytest.approx({"a": 0.075, "b": 0.0, "c": -0.075})
    assert shrunken(scores, noise_sd=0.5) == pytest.approx(dict.fromkeys(scores, 0.0))
    assert shrunken({"only": 0.04}, 0.01) == {"only": 0.04}


def test_shrinking_takes_the_winners_curse_off():
    draw = np.random.default_rng(5)
    naive, shrunk = [], []
    for _ in range(300):
        true = draw.normal(0, 0.02, 20)
        seen = true + draw.normal(0, 0.03, 20)
        best = int(np.argmax(seen))
        scores = shrunken({str(i): float(value) for i, value in enumerate(seen)}, 0.03)
        naive.append(seen[best] - true[best])
        shrunk.append(scores[str(best)] - true[best])
    assert np.mean(naive) > 0.03
    assert abs(np.mean(shrunk)) < 0.006
