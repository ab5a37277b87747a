"""Limits over blocks: not whether B's mean meets a limit, but whether it is shown to."""

import math
from collections.abc import Sequence
from typing import Literal

from servesmith.stats.distributions import t_quantile
from servesmith.stats.sample import percent, spread


def limit_breach(
    metric: str, values: Sequence[float], limit: float, better: Literal["higher", "lower"], alpha: float = 0.05
) -> str:
    """Why B is not shown to meet a limit on a metric, in words; empty if it is.

    `values` holds B's metric block by block, `limit` is the worst value allowed. The one-sided bound at alpha of its
    mean over blocks (t, on the logarithm, which fits positive metrics) must be on the right side of the limit.
    """
    if len(values) < 2:
        return f"{metric}: no bound can be had from fewer than two blocks"
    if not all(math.isfinite(value) and value > 0 for value in values):
        return f"{metric}: no bound can be had from the values {', '.join(f'{value:.4g}' for value in values)}"
    sample = spread([math.log(value) for value in values])
    reach = t_quantile(1.0 - alpha, sample.blocks - 1) * sample.sd / math.sqrt(sample.blocks)
    sign = 1.0 if better == "lower" else -1.0
    bound = math.exp(sample.mean + sign * reach)
    if sign * (bound - limit) <= 0:
        return ""
    side = "upper" if better == "lower" else "lower"
    shown = f"the {percent(1 - alpha, 0)} {side} bound over {sample.blocks} blocks is {bound:.4g}"
    return f"{metric}: {shown}, the limit {limit:.4g}"
