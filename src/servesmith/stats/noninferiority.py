"""Are the answers still as good? Non-inferiority of paired binary items by Tango's score test, made exact.

Tango 1998 (Statistics in Medicine 17:891-908): score statistic of the difference of paired proportions. Its critical
value is raised, where need be, until a B that is worse by exactly the margin passes with at most alpha, whatever the
discordance (exact enumeration of the trinomial).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from servesmith.errors import InputError, Problem
from servesmith.stats.distributions import Floats, norm_quantile, sign_test, trinomial
from servesmith.stats.verdict import ItemsVerdict

MARGINS_ABOVE_CHANCE = 5.0
"""A baseline nearer to chance than this many margins has too little to lose for a loss to show."""

_TAIL = 7.0
_NUISANCES = 40
_EQUAL = 1e-9


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a task's answers must show. Raises ValueError on values that make no sense."""

    margin: float
    """Largest loss of accuracy allowed, 0.02 is two points."""
    alpha: float
    """One-sided chance that a B worse by exactly the margin passes."""
    chance: float
    """Accuracy of guessing."""
    aa_discordance: float | None = None
    """Share of items on which A and A restarted differ, if that was measured."""

    def __post_init__(self) -> None:
        if not (0 < self.margin < 1 and 0 < self.alpha < 0.5 and 0 <= self.chance < 1):
            raise ValueError("need 0 < margin < 1, 0 < alpha < 0.5, 0 <= chance < 1")


class _Counts(msgspec.Struct, frozen=True):
    """The paired table: how many items, how many right in A only and in B only."""

    items: int
    a_only: int
    b_only: int


def judge_items(
    task: str, a: Sequence[bool], b: Sequence[bool], margin: float, alpha: float, chance: float
) -> ItemsVerdict:
    """Judge B's answers against A's on the same items (True: right), without a measured A/A discordance."""
    return judge_gate(task, a, b, Gate(margin=margin, alpha=alpha, chance=chance))


def judge_gate(task: str, a: Sequence[bool], b: Sequence[bool], gate: Gate) -> ItemsVerdict:
    """Judge B's answers against A's on the same items.

    pass: the lower bound of the difference exceeds minus the margin. fail: it does not, and a loss is shown (upper
    bound under zero). powerless: these items could not tell; passes nothing. Raises InputError on unpaired items.
    """
    counts = _count(task, a, b)
    critical = critical_value(counts.items, gate.margin, gate.alpha)
    low = lower_bound(counts.b_only, counts.a_only, counts.items, critical)
    high = -lower_bound(counts.a_only, counts.b_only, counts.items, critical)
    discordance = (counts.a_only + counts.b_only) / counts.items if gate.aa_discordance is None else gate.aa_discordance
    reason = _powerless(a, gate)
    passes = _passes(counts, gate.margin, critical)
    says = "powerless" if reason else "pass" if passes else "fail" if high < 0 else "undecided"
    return ItemsVerdict(
        says=says,
        task=task,
        items=counts.items,
        a_right=sum(a),
        b_right=sum(b),
        a_only=counts.a_only,
        b_only=counts.b_only,
        difference=(counts.b_only - counts.a_only) / counts.items,
        low=low,
        margin=gate.margin,
        alpha=gate.alpha,
        mcnemar_p=sign_test(counts.a_only, counts.b_only),
        power=pass_probability(counts.items, gate, max(discordance, gate.margin), 0.0),
        because=reason or _because(says, counts, (low, high), gate),
    )


def near_chance(accuracy: float, chance: float, margin: float) -> bool:
    """True if a baseline this accurate has too little to lose for a loss to show."""
    return accuracy - chance < MARGINS_ABOVE_CHANCE * margin - _EQUAL


def assay_sensitive(a: Sequence[bool], margin: float, alpha: float, aa_discordance: float = 0.0) -> bool:
    """True if these items can tell: an identical B would pass, and a B with a planted harm of one margin would not.

    The harm: as many of A's right items as make one margin (rounded up) turn wrong, on top of A/A discordance that
    goes both ways alike.
    """
    return not _insensitive(a, Gate(margin=margin, alpha=alpha, chance=0.0, aa_discordance=aa_discordance))


def pass_probability(items: int, gate: Gate, discordance: float, difference: float) -> float:
    """Exact probability of a pass if B is truly better by `difference` (negative: worse) at this discordance.

    Needs |difference| <= discordance <= 1.
    """
    b_only, a_only, weights = _outcomes(items, (discordance + difference) / 2, (discordance - difference) / 2)
    statistic = tango_statistic(b_only, a_only, items, -gate.margin)
    passed = statistic > critical_value(items, gate.margin, gate.alpha) + _EQUAL
    return float(weights[passed].sum())


def tango_statistic(b_only: Floats, a_only: Floats, items: int, difference: float) -> Floats:
    """Tango's score statistic of H0: accuracy of B minus accuracy of A is `difference`. Elementwise.

    (b - a - n d) / sqrt(n (2 q + d (1 - d))), where q is the probability of "A only" at its maximum likelihood under
    H0: the larger root of 2 n q^2 + (-b - a + (2 n - b + a) d) q - a d (1 - d) = 0. Zero where the variance is zero.
    """
    linear = -b_only - a_only + (2.0 * items - b_only + a_only) * difference
    constant = -a_only * difference * (1.0 - difference)
    root = (np.sqrt(np.maximum(linear * linear - 8.0 * items * constant, 0.0)) - linear) / (4.0 * items)
    variance = items * (2.0 * root + difference * (1.0 - difference))
    distance = b_only - a_only - items * difference
    return np.where(variance > 0, distance / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def lower_bound(b_only: int, a_only: int, items: int, critical: float) -> float:
    """Lower limit of accuracy of B minus A: the difference at which Tango's statistic is `critical` (bisection)."""
    low, high = -1.0, (b_only - a_only) / items
    b_count, a_count = np.asarray(float(b_only)), np.asarray(float(a_only))
    for _ in range(60):
        middle = (low + high) / 2.0
        above = float(tango_statistic(b_count, a_count, items, middle)) > critical
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2.0


@lru_cache(maxsize=256)
def critical_value(items: int, margin: float, alpha: float) -> float:
    """What Tango's statistic at minus the margin must exceed for a pass.

    The normal quantile, or more: the least value with which a B worse by exactly the margin passes with at most alpha
    at every discordance on a grid from the margin (all change is harm) to 1.
    """
    nuisances = np.geomspace(margin, 1.0, _NUISANCES)
    return max([norm_quantile(1.0 - alpha), *(_least(items, margin, alpha, float(value)) for value in nuisances)])


def _least(items: int, margin: float, alpha: float, discordance: float) -> float:
    """The least critical value with a size of at most alpha at this discordance."""
    b_only, a_only, weights = _outcomes(items, (discordance - margin) / 2, (discordance + margin) / 2)
    statistic = tango_statistic(b_only, a_only, items, -margin)
    order = np.argsort(-statistic)
    over = np.nonzero(np.cumsum(weights[order]) > alpha)[0]
    return float(statistic[order[over[0]]]) if len(over) else -math.inf


def _outcomes(items: int, p_b_only: float, p_a_only: float) -> tuple[Floats, Floats, Floats]:
    """All likely outcomes: counts of B only, of A only, and their probabilities (flat arrays)."""
    b_only, a_only = np.meshgrid(_likely(items, p_b_only), _likely(items, p_a_only))
    weights = trinomial(items, b_only, a_only, p_b_only, p_a_only)
    likely = weights > 0
    return b_only[likely], a_only[likely], weights[likely]


def _likely(items: int, probability: float) -> Floats:
    """The counts of a binomial that hold all but a negligible part of it."""
    reach = _TAIL * math.sqrt(items * probability * (1.0 - probability)) + _TAIL * (probability > 0)
    centre = items * probability
    return np.arange(max(0, math.floor(centre - reach)), min(items, math.ceil(centre + reach)) + 1, dtype=np.float64)


def _passes(counts: _Counts, margin: float, critical: float) -> bool:
    statistic = tango_statistic(
        np.asarray(float(counts.b_only)), np.asarray(float(counts.a_only)), counts.items, -margin
    )
    return float(statistic) > critical + _EQUAL


def _count(task: str, a: Sequence[bool], b: Sequence[bool]) -> _Counts:
    if len(a) != len(b) or not a:
        raise InputError(
            Problem(
                f"Task {task}: A answered {len(a)} items and B {len(b)}.",
                "Both must answer the same items, at least one.",
            )
        )
    a_only = sum(x and not y for x, y in zip(a, b, strict=True))
    b_only = sum(y and not x for x, y in zip(a, b, strict=True))
    return _Counts(items=len(a), a_only=a_only, b_only=b_only)


def _powerless(a: Sequence[bool], gate: Gate) -> str:
    """Why these items cannot tell; empty if they can."""
    accuracy = sum(a) / len(a)
    if near_chance(accuracy, gate.chance, gate.margin):
        return (
            f"The baseline's accuracy {accuracy:.1%} is within {MARGINS_ABOVE_CHANCE:.0f} margins of {gate.margin:.1%} "
            f"of chance ({gate.chance:.1%}): it has too little to lose for a loss to show."
        )
    return _insensitive(a, gate)


def _insensitive(a: Sequence[bool], gate: Gate) -> str:
    """Why a planted harm of one margin would not be told from no harm on these very items; empty if it would."""
    items, right = len(a), sum(a)
    harm = math.ceil(gate.margin * items - _EQUAL)
    swapped = math.ceil((gate.aa_discordance or 0.0) * items / 2)
    critical = critical_value(items, gate.margin, gate.alpha)
    if harm + swapped > right:
        return f"A harm of one margin is {harm} items, and A has only {right} right ones to lose."
    if not _passes(_Counts(items, 0, 0), gate.margin, critical):
        return f"{items} items are too few: not even an identical B could be shown to be within {gate.margin:.1%}."
    if _passes(_Counts(items, harm + swapped, min(swapped, items - right)), gate.margin, critical):
        return f"A planted harm of {harm} of {items} items would have passed."
    return ""


def _because(says: str, counts: _Counts, bounds: tuple[float, float], gate: Gate) -> str:
    """The decision as a sentence with its numbers."""
    low, high = bounds
    difference = (counts.b_only - counts.a_only) / counts.items
    seen = (
        f"B minus A is {difference:+.2%} on {counts.items} items ({counts.b_only} better, {counts.a_only} worse); the "
        f"lower bound (one-sided, alpha {gate.alpha:.3g}) is {low:+.2%}"
    )
    if says == "pass":
        return f"{seen}, above the margin of {-gate.margin:+.1%}."
    if says == "fail":
        return (
            f"{seen}, not above the margin of {-gate.margin:+.1%}, and a loss is shown: the upper bound is {high:+.2%}."
        )
    return f"{seen}, not above the margin of {-gate.margin:+.1%}, and no loss is shown either: more items would tell."
