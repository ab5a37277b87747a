"""The noun of judging: what was decided, how sure, and from what."""

from typing import Literal

import msgspec

Arm = Literal["A", "B"]
"""A is the incumbent, B is what is tried."""

Says = Literal["better", "worse", "same", "undecided"]


class Estimate(msgspec.Struct, frozen=True):
    """A relative effect as a ratio with a confidence interval. Above 1 is better: 1.03 is three per cent more of a
    metric that should be high, or one that should be low divided by 1.03."""

    ratio: float
    low: float
    high: float
    confidence: float
    """Coverage of [low, high] at the look where the rules stop, e.g. 0.95."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Better, worse, same or undecided, with the reason. `log_ratios` are all that it was computed from."""

    says: Says
    metric: str
    effect: Estimate | None
    """None with fewer than two blocks."""
    blocks: int
    because: str
    log_ratios: tuple[float, ...] = ()
    """Per block ln(metric_B / metric_A), signed so that positive is better."""
    detectable: float = 0.0
    """The smallest relative gain that this many blocks at this noise would have shown with 80 % power."""
    doubts: tuple[str, ...] = ()


class ItemsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Non-inferiority of paired binary items (right or wrong, A and B on the same item)."""

    says: Literal["pass", "fail", "undecided", "powerless"]
    task: str
    items: int
    a_right: int
    b_right: int
    a_only: int
    b_only: int
    difference: float
    """Accuracy of B minus accuracy of A."""
    low: float
    """One-sided lower confidence bound of the difference."""
    margin: float
    alpha: float
    mcnemar_p: float
    power: float
    """Probability that an equal B would pass with these items at this discordance."""
    because: str
