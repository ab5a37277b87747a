"""A sample of blocks: log ratios, their mean and spread, and the blocks that stand apart."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from servesmith.errors import InputError, Problem

SD_FLOOR = 0.001
"""No block-to-block noise under 0.1 % is believed. Without a floor a handful of values that agree by chance, by
rounding or because they are copies would prove any difference; with it, four such blocks show no gain under 0.23 %."""

OUTLIER_MADS = 5.0
"""A block further from the median than this many scaled median absolute deviations is named."""

MAD_TO_SD = 1.4826
"""Makes the median absolute deviation estimate the standard deviation of normal data."""

_LEAVE_OUT = "Leave its block out: a trial without a positive, finite metric has failed."


class Spread(msgspec.Struct, frozen=True):
    """Mean and spread of log ratios over blocks."""

    blocks: int
    mean: float
    sd: float
    """Sample standard deviation (n - 1), never under SD_FLOOR."""
    floored: bool
    """True if the sample's own standard deviation was under the floor."""


def log_ratios(a: Sequence[float], b: Sequence[float], better: Literal["higher", "lower"]) -> tuple[float, ...]:
    """Per block ln(b / a), or ln(a / b) where lower is better: positive always means that B is better.

    `a` and `b` hold the metric of the two arms, block by block. Raises InputError on values that have no logarithm.
    """
    if len(a) != len(b):
        raise InputError(Problem(f"A has {len(a)} blocks and B has {len(b)}.", "Compare whole blocks only."))
    problems = [
        Problem(f"Block {number}: the metric of {arm} is {value}, which has no finite logarithm.", _LEAVE_OUT)
        for number, pair in enumerate(zip(a, b, strict=True), start=1)
        for arm, value in zip("AB", pair, strict=True)
        if not (math.isfinite(value) and value > 0)
    ]
    if problems:
        raise InputError(*problems)
    sign = 1.0 if better == "higher" else -1.0
    return tuple(sign * (math.log(y) - math.log(x)) for x, y in zip(a, b, strict=True))


def require_finite(values: Sequence[float]) -> None:
    """Raise InputError that names every block whose log ratio is NaN or infinite."""
    problems = [
        Problem(f"Block {number}: the log ratio is {value}.", _LEAVE_OUT)
        for number, value in enumerate(values, start=1)
        if not math.isfinite(value)
    ]
    if problems:
        raise InputError(*problems)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float:
    """Sample standard deviation (n - 1) of at least two values."""
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def spread(values: Sequence[float]) -> Spread:
    """Mean and floored standard deviation of at least two log ratios."""
    own = sd(values)
    return Spread(blocks=len(values), mean=mean(values), sd=max(own, SD_FLOOR), floored=own < SD_FLOOR)


def median(values: Sequence[float]) -> float:
    """Middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """Indexes of values more than OUTLIER_MADS scaled MADs from the median (MAD floored like the sd)."""
    centre = median(values)
    scale = max(MAD_TO_SD * median([abs(value - centre) for value in values]), SD_FLOOR)
    return tuple(index for index, value in enumerate(values) if abs(value - centre) > OUTLIER_MADS * scale)


def shrunken(scores: Mapping[str, float], noise_sd: float) -> dict[str, float]:
    """Scores pulled towards their mean by the part of their scatter that noise explains, in the order given.

    Empirical Bayes for normal scores with known noise (Morris 1983): kept share = 1 - noise_sd^2 / variance of the
    scores, at least 0. It takes the winner's curse off the best of many; it does not change the ranking.
    """
    if len(scores) < 2:
        return dict(scores)
    values = list(scores.values())
    centre, own = mean(values), sd(values)
    share = max(0.0, 1.0 - (noise_sd / own) ** 2) if own > 0 else 0.0
    return {name: centre + share * (value - centre) for name, value in scores.items()}


def percent(share: float, digits: int = 1, *, sign: bool = False) -> str:
    """A share for people: 0.034 is `3.4 %`."""
    return f"{100.0 * share:{'+' if sign else ''}.{digits}f} %"
