"""The door to scipy: quantiles and probabilities, typed.

`scipy.special` is imported inside the functions, since it is slow to import and most verbs never need it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _special() -> Any:  # noqa: ANN401
    """The module, untyped because scipy ships no stubs."""
    from scipy import special

    return special


def norm_quantile(probability: float) -> float:
    """The z with P(Z <= z) = probability."""
    return float(_special().ndtri(probability))


def t_quantile(probability: float, freedom: float) -> float:
    """The t with P(T <= t) = probability, Student's t with `freedom` degrees of freedom."""
    return float(_special().stdtrit(freedom, probability))


def t_cdf(t: float, freedom: float) -> float:
    """P(T <= t), Student's t with `freedom` degrees of freedom."""
    return float(_special().stdtr(freedom, t))


def chi2_quantile(probability: float, freedom: float) -> float:
    """The x with P(X <= x) = probability, chi-square with `freedom` degrees of freedom."""
    return float(_special().chdtri(freedom, 1.0 - probability))


def t_power(noncentrality: float, freedom: float, alpha: float) -> float:
    """Power of the one-sided t test at level alpha if the statistic is noncentral t."""
    return 1.0 - float(_special().nctdtr(freedom, noncentrality, t_quantile(1.0 - alpha, freedom)))


def t_noncentrality(power: float, freedom: float, alpha: float) -> float:
    """The noncentrality (effect * sqrt(n) / sd) at which the one-sided t test at level alpha has this power.

    Found by bisection of `t_power`, which rises with the noncentrality.
    """
    low, high = 0.0, t_quantile(1.0 - alpha, freedom) + 1.0
    while t_power(high, freedom, alpha) < power:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if t_power(middle, freedom, alpha) < power else (low, middle)
    return (low + high) / 2.0


def sign_test(first: int, second: int) -> float:
    """Two-sided exact p of `first` against `second` successes if both sides are equally likely (exact McNemar)."""
    total = first + second
    if total == 0:
        return 1.0
    return min(1.0, 2.0 * float(_special().bdtr(float(min(first, second)), total, 0.5)))


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """P(X >= successes) of `trials` draws."""
    if successes <= 0:
        return 1.0
    return float(_special().bdtrc(float(successes - 1), trials, probability))


def binomial_low(successes: int, trials: int, alpha: float) -> float:
    """One-sided exact lower bound of a share (Clopper and Pearson, Biometrika 26, 1934); 0 without a success."""
    if successes <= 0:
        return 0.0
    return float(_special().betaincinv(successes, trials - successes + 1, alpha))


def trinomial(items: int, first: Floats, second: Floats, p_first: float, p_second: float) -> Floats:
    """P(first, second, rest) of `items` draws, elementwise; 0 where first + second > items."""
    special = _special()
    rest = items - first - second
    inside = rest >= 0
    safe = np.where(inside, rest, 0.0)
    log = (
        math.lgamma(items + 1)
        - special.gammaln(first + 1)
        - special.gammaln(second + 1)
        - special.gammaln(safe + 1)
        + special.xlogy(first, p_first)
        + special.xlogy(second, p_second)
        + special.xlogy(safe, max(0.0, 1.0 - p_first - p_second))
    )
    return np.where(inside, np.exp(log), 0.0)
