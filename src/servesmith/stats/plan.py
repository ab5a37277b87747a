"""What a comparison could show: the smallest effect, the blocks and the items that are needed."""

import math

from servesmith.stats.distributions import norm_quantile, t_noncentrality
from servesmith.stats.noninferiority import Gate, pass_probability
from servesmith.stats.rules import MINIMUM_BLOCKS, Rules
from servesmith.stats.sample import SD_FLOOR

POWER = 0.80
"""The probability with which an effect must be shown to be called detectable."""

_MOST_BLOCKS = 100_000


def detectable(sd: float, blocks: int, alpha: float, power: float = POWER) -> float:
    """The smallest relative gain (0.03: 3 %) that `blocks` blocks at this noise show with this power.

    `sd` is the standard deviation of a block's log ratio. One look of the one-sided t test at level alpha: the gain d
    at which the noncentral t with noncentrality d * sqrt(blocks) / sd exceeds its quantile with probability `power`.
    """
    if blocks < 2 or sd < 0:
        raise ValueError(f"need at least 2 blocks and sd >= 0, not {blocks} and {sd}")
    shift = t_noncentrality(power, blocks - 1, alpha) * max(sd, SD_FLOOR) / math.sqrt(blocks)
    return math.expm1(min(shift, 700.0))


def blocks_needed(gain: float, sd: float, rules: Rules, power: float = POWER) -> int:
    """The fewest blocks that show a relative gain (0.03: 3 %) at this noise with this power, at rules.alpha.

    At least the first look; may exceed `rules.last`: then these rules cannot be relied on to show it.
    """
    if gain <= 0:
        raise ValueError(f"a gain of {gain} cannot be shown: it must be above 0")
    low = max(MINIMUM_BLOCKS, rules.looks[0])
    high = low
    while detectable(sd, high, rules.alpha, power) > gain:
        low, high = high + 1, high * 2
        if high > _MOST_BLOCKS:
            raise ValueError(f"a gain of {gain:.2%} needs more than {_MOST_BLOCKS} blocks at a noise of {sd:.2%}")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(sd, middle, rules.alpha, power) <= gain else (middle + 1, high)
    return low


def items_needed(margin: float, discordance: float, alpha: float, power: float) -> int:
    """Items with which an equal B passes the gate with this power, by the exact power of its test.

    `discordance` is the share of items on which the arms differ though they are equally good; at least the margin is
    assumed. Starts from the normal approximation and adds 2 % until the exact power (which is not monotone in the
    number of items, so a few less may do too) is reached.
    """
    gate = Gate(margin=margin, alpha=alpha, chance=0.0)
    items = items_estimate(margin, discordance, alpha, power)
    while pass_probability(items, gate, max(discordance, margin), 0.0) < power:
        items = math.ceil(items * 1.02)
    return items


def items_estimate(margin: float, discordance: float, alpha: float, power: float) -> int:
    """Items by the normal approximation: (z_alpha + z_power)^2 * discordance / margin^2."""
    z = norm_quantile(1.0 - alpha) + norm_quantile(power)
    return math.ceil(z * z * max(discordance, margin) / (margin * margin))
