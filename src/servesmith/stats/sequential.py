"""Group-sequential judging of paired blocks: better, worse, same or undecided, only at looks fixed beforehand."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from servesmith.stats.distributions import Floats, t_cdf, t_quantile
from servesmith.stats.plan import detectable
from servesmith.stats.rules import MINIMUM_BLOCKS, Rules
from servesmith.stats.sample import OUTLIER_MADS, SD_FLOOR, Spread, mean, outliers, percent, require_finite, spread
from servesmith.stats.verdict import Estimate, Says, Verdict

SAYS: tuple[Says, ...] = ("undecided", "better", "worse", "same")
"""What the codes of `decide` mean."""

_FEW_BLOCKS = 6


def decide(means: Floats, sds: Floats, blocks: int, rules: Rules) -> NDArray[np.intp]:
    """The rule itself, elementwise: codes into SAYS for samples with these means and sds at one look.

    better: the one-sided lower bound at alpha is above 0. worse: mirrored. same: the upper bound at
    futility_confidence is under ln(1 + minimum_gain).
    """
    errors = np.maximum(sds, SD_FLOOR) / math.sqrt(blocks)
    reach = t_quantile(1.0 - rules.alpha, blocks - 1) * errors
    futile = means + t_quantile(rules.futility_confidence, blocks - 1) * errors < math.log1p(rules.minimum_gain)
    return np.select([means - reach > 0, means + reach < 0, futile], [1, 2, 3], 0)


def judge(log_ratios: Sequence[float], metric: str, rules: Rules, *, limit_breaches: tuple[str, ...] = ()) -> Verdict:
    """Judge the blocks so far (positive log ratio: B better). Raises InputError on NaN or infinity.

    Decides only when the number of blocks is a look of `rules`. `limit_breaches` says in words which limits B is not
    shown to meet; then it cannot be better.
    """
    require_finite(log_ratios)
    blocks = len(log_ratios)
    if blocks < 2:
        return Verdict(
            says="undecided", metric=metric, effect=None, blocks=blocks,
            because=_waiting(blocks, rules), log_ratios=tuple(log_ratios),
        )  # fmt: skip
    sample = spread(log_ratios)
    says: Says = "undecided"
    because = _waiting(blocks, rules)
    if blocks in rules.looks:
        says = SAYS[int(decide(np.asarray(sample.mean), np.asarray(sample.sd), blocks, rules))]
        because = _because(says, sample, rules, limit_breaches)
        says = "undecided" if says == "better" and limit_breaches else says
    return Verdict(
        says=says,
        metric=metric,
        effect=_estimate(sample, rules),
        blocks=blocks,
        because=because,
        log_ratios=tuple(log_ratios),
        detectable=detectable(sample.sd, blocks, rules.alpha),
        doubts=_doubts(log_ratios, sample),
    )


def judge_fixed(
    log_ratios: Sequence[float],
    metric: str,
    rules: Rules,
    *,
    confidence: float = 0.95,
    limit_breaches: tuple[str, ...] = (),
    planned: int | None = None,
) -> Verdict:
    """Judge a number of blocks that was fixed before the first of them ran: one look, so the plain t interval.

    For `prove`. Of `rules` only the practical minimum and the futility confidence count. With fewer than
    MINIMUM_BLOCKS always undecided. So is any other number of blocks than was `planned`, where that is given: blocks
    that were lost were not lost by chance.
    """
    single = Rules(
        looks=(max(MINIMUM_BLOCKS, len(log_ratios)),),
        alpha=(1.0 - confidence) / 2.0,
        futility_confidence=rules.futility_confidence,
        minimum_gain=rules.minimum_gain,
    )
    verdict = judge(log_ratios, metric, single, limit_breaches=limit_breaches)
    if planned is None or verdict.blocks == planned:
        return verdict
    because = f"{verdict.blocks} blocks instead of the {planned} that were fixed beforehand, so nothing is decided."
    return msgspec.structs.replace(verdict, says="undecided", because=because)


def judge_many(samples: Floats, rules: Rules) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Run the rules over many simulated comparisons at once.

    `samples` has shape (runs, rules.last). Returns the code of each final verdict and the blocks it took.
    """
    says = np.zeros(len(samples), dtype=np.intp)
    blocks = np.full(len(samples), rules.last, dtype=np.intp)
    for look in rules.looks:
        seen = samples[:, :look]
        codes = decide(seen.mean(axis=1), seen.std(axis=1, ddof=1), look, rules)
        new = (says == 0) & (codes != 0)
        says[new] = codes[new]
        blocks[new] = look
    return says, blocks


def next_look(blocks: int, rules: Rules) -> int | None:
    """The first look after `blocks` blocks; None if there is none."""
    return next((look for look in rules.looks if look > blocks), None)


def p_value(log_ratios: Sequence[float]) -> float:
    """One-sided p of the t test that B is not better, on at least two blocks. For Holm over several claims."""
    require_finite(log_ratios)
    sample = spread(log_ratios)
    return 1.0 - t_cdf(sample.mean * math.sqrt(sample.blocks) / sample.sd, sample.blocks - 1)


def holm(p_values: dict[str, float], alpha: float = 0.05) -> dict[str, bool]:
    """Which claims stand if the chance of any false one among all is to stay under alpha.

    Holm 1979: the k-th smallest of m p-values must be at most alpha / (m - k + 1), and all smaller ones too.
    """
    if any(not 0.0 <= value <= 1.0 for value in p_values.values()):
        raise ValueError(f"p values lie between 0 and 1: {p_values}")
    stands: dict[str, bool] = {}
    going = True
    for rank, (name, value) in enumerate(sorted(p_values.items(), key=lambda item: (item[1], item[0]))):
        going = going and value <= alpha / (len(p_values) - rank)
        stands[name] = going
    return {name: stands[name] for name in p_values}


def as_change(log_ratio: float) -> str:
    """A log ratio as a signed per cent for people: 0.0296 is +3.0 %."""
    change = math.expm1(log_ratio) * 100.0 if log_ratio < 700.0 else math.inf
    return f"{change:+.1f} %"


def _bounds(sample: Spread, alpha: float) -> tuple[float, float]:
    reach = t_quantile(1.0 - alpha, sample.blocks - 1) * sample.sd / math.sqrt(sample.blocks)
    return sample.mean - reach, sample.mean + reach


def _ratio(log_ratio: float) -> float:
    return math.exp(max(min(log_ratio, 700.0), -700.0))


def _estimate(sample: Spread, rules: Rules) -> Estimate:
    low, high = _bounds(sample, rules.alpha)
    return Estimate(ratio=_ratio(sample.mean), low=_ratio(low), high=_ratio(high), confidence=rules.confidence)


def _waiting(blocks: int, rules: Rules) -> str:
    """Why nothing can be decided at this number of blocks."""
    coming = next_look(blocks, rules)
    if coming is None:
        return f"{blocks} blocks are more than the last look at {rules.last}: what was decided there stands."
    if blocks < MINIMUM_BLOCKS:
        return f"{blocks} of at least {MINIMUM_BLOCKS} blocks; the next look is at {coming}."
    return f"{blocks} blocks lie between two looks; the next look is at {coming}."


def _because(says: Says, sample: Spread, rules: Rules, limit_breaches: tuple[str, ...]) -> str:
    """The decision at a look as a sentence with its numbers."""
    low, high = _bounds(sample, rules.alpha)
    seen = f"{as_change(sample.mean)} over {sample.blocks} blocks (bounds {as_change(low)} and {as_change(high)})"
    if says == "better" and limit_breaches:
        broken = "; ".join(limit_breaches)
        return f"{seen}: better, but not shown to meet the limits: {broken}. {_onward(sample.blocks, rules)}"
    if says == "better":
        return f"{seen}: even the lower bound (one-sided, alpha {rules.alpha:.3f}) is above zero."
    if says == "worse":
        return f"{seen}: even the upper bound (one-sided, alpha {rules.alpha:.3f}) is below zero."
    if says == "same":
        return f"{seen}: {_futile(sample, rules, low)}"
    return f"{seen}: zero lies between the bounds. {_onward(sample.blocks, rules)}"


def _futile(sample: Spread, rules: Rules, low: float) -> str:
    """What `same` rules out, and what it does not: a loss may still hide behind it."""
    _, upper = _bounds(sample, 1.0 - rules.futility_confidence)
    bound = f"{percent(rules.futility_confidence, 0)} upper bound {as_change(upper)}"
    gain = f"a gain of {percent(rules.minimum_gain)} or more is ruled out ({bound})"
    if low > -math.log1p(rules.minimum_gain):
        return f"{gain}, and so is a loss of that size."
    return f"{gain}; it may still be a loss of up to {as_change(low).lstrip('-')}."


def _onward(blocks: int, rules: Rules) -> str:
    coming = next_look(blocks, rules)
    return "That was the last look." if coming is None else f"The next look is at {coming}."


def _doubts(log_ratios: Sequence[float], sample: Spread) -> tuple[str, ...]:
    """What a reader should know about this sample, each with what would remove it."""
    doubts: list[str] = []
    if sample.floored:
        doubts.append(
            f"The blocks agree to better than {percent(SD_FLOOR)}, which no server does: that much noise is assumed. "
            "Check that they are separate measurements."
        )
    if sample.blocks < _FEW_BLOCKS:
        doubts.append(f"Noise estimated from {sample.blocks} blocks is uncertain; {_FEW_BLOCKS} would steady it.")
    if sample.blocks >= MINIMUM_BLOCKS:
        for index in outliers(log_ratios):
            rest = mean([value for place, value in enumerate(log_ratios) if place != index])
            doubts.append(
                f"Block {index + 1} ({as_change(log_ratios[index])}) lies more than {OUTLIER_MADS:.0f} MADs from the "
                f"median; without it the effect would be {as_change(rest)}. Read its two trials."
            )
    return tuple(doubts)
