"""Intervals of 95 % for shares and percentiles of one load's requests. Pure.

They take requests for independent, which those of one server start are not: neighbours wait for the same batch. So they
say how well this start was seen, and are too narrow for how the next start will be; that is what blocks are for.
"""

import math

import numpy as np

from servesmith.measure.frame import Floats

CONFIDENCE = 0.95
_Z = 1.959963984540054
"""97.5 % point of the normal distribution."""


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Interval of a share: E. B. Wilson, Probable inference, JASA 22 (1927) 209. `count` is at least 1."""
    share, z2 = hits / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = _Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return middle - reach if hits else 0.0, middle + reach if hits < count else 1.0


def quantile_interval(ordered: Floats, share: float) -> tuple[float, float] | None:
    """Two values of a sorted sample between which the quantile lies with 95 %, whatever the distribution.

    The number of values under it is binomial, so the ranks follow from that alone (David and Nagaraja, Order
    Statistics, 2003, 7.1). None: the sample is too small to bound it on both sides.
    """
    count = len(ordered)
    low, high = _binomial_bounds(count, share)
    if low < 1 or high > count:
        return None
    return float(ordered[low - 1]), float(ordered[high - 1])


def _binomial_bounds(count: int, share: float) -> tuple[int, int]:
    """Ranks l < u, from 1, with P(X < l) <= 2.5 % and P(X >= u) <= 2.5 % for X of the binomial distribution.

    Summed exactly within ten standard deviations of the mean; what lies beyond is under 1e-20.
    """
    if not count or not 0 < share < 1:
        return 0, count + 1
    reach = 10 * math.sqrt(count * share * (1 - share)) + 10
    first, last = max(0, math.floor(count * share - reach)), min(count, math.ceil(count * share + reach))
    successes = np.arange(first, last, dtype=np.float64)
    steps = np.log((count - successes) / (successes + 1) * (share / (1 - share)))
    start = math.lgamma(count + 1) - math.lgamma(first + 1) - math.lgamma(count - first + 1)
    start += first * math.log(share) + (count - first) * math.log1p(-share)
    at_most = np.cumsum(np.exp(start + np.concatenate(([0.0], np.cumsum(steps)))))
    tail = (1 - CONFIDENCE) / 2
    low = first + int(np.searchsorted(at_most, tail, side="right"))
    high = first + int(np.searchsorted(at_most, 1 - tail, side="left")) + 1
    return low, high
