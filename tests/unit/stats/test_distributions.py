"""The door to scipy gives what tables and independent routes give."""

import math

import numpy as np
import pytest
from scipy import stats

from servesmith.stats.distributions import (
    chi2_quantile,
    norm_quantile,
    sign_test,
    t_cdf,
    t_noncentrality,
    t_power,
    t_quantile,
    trinomial,
)


def test_quantiles_of_printed_tables():
    assert norm_quantile(0.975) == pytest.approx(1.959964, abs=1e-6)
    assert t_quantile(0.99, 3) == pytest.approx(4.541, abs=5e-4)
    assert t_quantile(0.99, 11) == pytest.approx(2.718, abs=5e-4)
    assert chi2_quantile(0.95, 3) == pytest.approx(7.815, abs=5e-4)


def test_t_cdf_inverts_the_quantile():
    for freedom in (1, 3, 11, 40):
        assert t_cdf(t_quantile(0.93, freedom), freedom) == pytest.approx(0.93, abs=1e-9)


@pytest.mark.parametrize("freedom", [3, 5, 11])
def test_power_of_the_t_test_against_scipys_own_noncentral_t(freedom):
    expected = stats.nct.sf(stats.t.ppf(0.99, freedom), freedom, 4.0)
    assert t_power(4.0, freedom, 0.01) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("freedom", [1, 3, 11, 200])
def test_noncentrality_reaches_the_power_asked_for(freedom):
    assert t_power(t_noncentrality(0.8, freedom, 0.01), freedom, 0.01) == pytest.approx(0.8, abs=1e-6)


def test_sign_test_is_the_exact_binomial_test():
    for first, second in ((1, 7), (6, 16), (0, 5), (5, 0), (9, 9)):
        expected = stats.binomtest(first, first + second, 0.5).pvalue
        assert sign_test(first, second) == pytest.approx(expected, rel=1e-9)
    assert sign_test(0, 0) == 1.0


def test_trinomial_is_a_distribution_with_the_right_cells():
    first, second = np.meshgrid(np.arange(6.0), np.arange(6.0))
    weights = trinomial(5, first, second, 0.2, 0.3)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[2, 1] == pytest.approx(math.factorial(5) / (1 * 2 * 2) * 0.2 * 0.3**2 * 0.5**2)
    assert weights[5, 5] == 0.0
