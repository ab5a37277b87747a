import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.measure.intervals import quantile_interval, wilson


def at_most(count: int, share: float, most: int) -> float:
    return math.fsum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(most + 1))


@given(st.integers(1, 300), st.sampled_from([0.05, 0.5, 0.95, 0.99]))
def test_ranks_are_those_of_the_binomial_distribution(count, share):
    """Values are their own ranks: the widest tails of at most 2.5 % on each side, and not one rank more."""
    found = quantile_interval(np.arange(1, count + 1, dtype=np.float64), share)
    bounded = at_most(count, share, 0) <= 0.025 and 1 - at_most(count, share, count - 1) <= 0.025
    assert (found is not None) == bounded
    if found:
        low, high = map(int, found)
        assert at_most(count, share, low - 1) <= 0.025 < at_most(count, share, low)
        assert 1 - at_most(count, share, high - 1) <= 0.025 + 1e-12
        assert high == 1 or 1 - at_most(count, share, high - 2) > 0.025


def test_large_samples():
    low, high = quantile_interval(np.arange(1, 1_000_001, dtype=np.float64), 0.5)
    assert (low, high) == (pytest.approx(500_000 - 980, abs=2), pytest.approx(500_000 + 980, abs=2))


def test_the_interval_covers():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(2000):
        low, high = quantile_interval(np.sort(rng.exponential(size=120)), 0.95)
        covered += low <= -math.log(0.05) <= high
    assert 0.945 <= covered / 2000 <= 0.99


def test_wilson_by_hand():
    """Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3."""
    assert wilson(81, 263) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert wilson(0, 20) == (0.0, pytest.approx(0.1611, abs=5e-5))
    assert wilson(20, 20) == (pytest.approx(1 - 0.1611, abs=5e-5), 1.0)
