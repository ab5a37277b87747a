"""The planner against simulation and against itself."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.stats.distributions import t_quantile
from servesmith.stats.plan import blocks_needed, detectable, items_estimate
from servesmith.stats.rules import Rules
from servesmith.stats.sample import SD_FLOOR


@pytest.mark.parametrize("blocks", [4, 6, 12])
def test_a_detectable_gain_is_detected_in_80_of_100(blocks):
    gain = detectable(0.02, blocks, 0.01)
    samples = np.random.default_rng(blocks).normal(math.log1p(gain), 0.02, (40_000, blocks))
    errors = samples.std(axis=1, ddof=1) / math.sqrt(blocks)
    found = (samples.mean(axis=1) > t_quantile(0.99, blocks - 1) * errors).mean()
    assert found == pytest.approx(0.80, abs=0.01)


@settings(deadline=None)
@given(st.floats(0.001, 0.2), st.integers(4, 30))
def test_more_blocks_and_less_noise_show_smaller_gains(sd, blocks):
    assert detectable(sd, blocks + 1, 0.01) < detectable(sd, blocks, 0.01)
    assert detectable(sd * 1.1, blocks, 0.01) > detectable(sd, blocks, 0.01)


def test_no_noise_is_floored_and_nonsense_refused():
    assert detectable(0.0, 4, 0.01) == detectable(SD_FLOOR, 4, 0.01)
    with pytest.raises(ValueError):
        detectable(0.02, 1, 0.01)
    with pytest.raises(ValueError):
        blocks_needed(0.0, 0.02, Rules())
    with pytest.raises(ValueError, match="more than"):
        blocks_needed(1e-6, 0.5, Rules())


@settings(deadline=None)
@given(st.floats(0.005, 0.2), st.floats(0.002, 0.1))
def test_blocks_needed_is_the_least_number_that_does(gain, sd):
    blocks = blocks_needed(gain, sd, Rules())
    assert detectable(sd, blocks, 0.01) <= gain
    assert blocks == 4 or detectable(sd, blocks - 1, 0.01) > gain


def test_items_by_the_normal_approximation_as_published_in_the_docs():
    assert items_estimate(0.01, 0.06, 0.05, 0.90) == pytest.approx(5140, abs=5)
    assert items_estimate(0.02, 0.06, 0.05, 0.90) == pytest.approx(1285, abs=5)
