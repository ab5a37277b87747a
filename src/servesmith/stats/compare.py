"""Paired blocks: the order of the arms, and the noise from A against A."""

import math
import random
from collections.abc import Sequence

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.stats.distributions import chi2_quantile
from servesmith.stats.plan import detectable
from servesmith.stats.rules import MINIMUM_BLOCKS, Rules
from servesmith.stats.sample import SD_FLOOR, mean, percent, require_finite
from servesmith.stats.verdict import Arm

Order = tuple[Arm, Arm]

_NOISE_CONFIDENCE = 0.90
_FEW_BLOCKS = 6


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How much a block's log ratio scatters when nothing was changed."""

    blocks: int
    sd: float
    """Standard deviation of the log ratio of a block, around zero: A against A has no effect. Floored."""
    low: float
    high: float
    """90 % chi-square interval of sd."""
    detectable: dict[int, float]
    """Number of blocks to the smallest relative gain shown with 80 % power, if the noise is sd."""
    doubts: tuple[str, ...] = ()


def arm_orders(blocks: int, seed: int) -> tuple[Order, ...]:
    """Which arm starts first in each block: random by seed, and each pair of blocks has both orders.

    So any even number of blocks is balanced and a steady drift cancels. A longer plan with the same seed begins with
    the shorter one.
    """
    draw = random.Random(seed)
    orders: list[Order] = []
    while len(orders) < blocks:
        pair: tuple[Order, Order] = (("A", "B"), ("B", "A"))
        orders += pair if draw.random() < 0.5 else pair[::-1]
    return tuple(orders[:blocks])


def noise_of(log_ratios: Sequence[float], rules: Rules | None = None) -> Noise:
    """The noise from blocks of A against A (at least one). `rules` (default: Rules()) say what is detectable.

    The true effect is zero, so sd^2 is the mean square and blocks * sd^2 / sigma^2 is chi-square with `blocks` degrees
    of freedom: one more than around the sample's own mean, which counts when there are three.
    """
    require_finite(log_ratios)
    rules = rules or Rules()
    blocks = len(log_ratios)
    if blocks == 0:
        raise InputError(Problem("No block of A against A was measured.", "Run at least one; three are better."))
    own = math.sqrt(mean([value * value for value in log_ratios]))
    sd = max(own, SD_FLOOR)
    tail = (1.0 - _NOISE_CONFIDENCE) / 2.0
    return Noise(
        blocks=blocks,
        sd=sd,
        low=sd * math.sqrt(blocks / chi2_quantile(1.0 - tail, blocks)),
        high=sd * math.sqrt(blocks / chi2_quantile(tail, blocks)),
        detectable={n: detectable(sd, n, rules.alpha) for n in range(MINIMUM_BLOCKS, rules.last + 1)},
        doubts=_noise_doubts(blocks, own),
    )


def _noise_doubts(blocks: int, own: float) -> tuple[str, ...]:
    doubts: list[str] = []
    if own < SD_FLOOR:
        doubts.append(
            f"A against A agrees to {percent(own, 2)}; a noise of {percent(SD_FLOOR)} is assumed, since no server does."
        )
    if blocks < _FEW_BLOCKS:
        doubts.append(f"Noise from {blocks} blocks is uncertain: see its interval; {_FEW_BLOCKS} would steady it.")
    return tuple(doubts)
