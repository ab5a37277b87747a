"""The knee: up to which level (streams, or steps of a rate) limits are kept. Search first, then claims at the edge.

A level keeps its limits if the typical start of a server does: the mean over starts of its margin, ln(value / limit)
signed so that above 0 is over the limit, is at most 0. One start is one observation; requests inside a start never
count as repeats. Levels are taken to be ordered: what a level breaks, a higher one breaks too.

Search: one start a level, doubling until one is over its limit, then bisecting on whole numbers. It only chooses where
to look. Claims: at the edge a number of fresh starts fixed beforehand, none of which took part in the choice, so the
tests below hold at their nominal level whatever the search did. docs/knee.md has the derivation and its simulation.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from servesmith.stats.distributions import binomial_low, binomial_tail, t_quantile
from servesmith.stats.sample import spread

FIRST_SHARE = 2 / 3
"""Share of alpha for the first level that is tested; each further one gets the same share of what is left. So the sum
over any number of levels stays under alpha."""

Stage = Literal["search", "edge"]
Side = Literal["keeps", "breaks"]
Says = Literal["knee", "between", "at-least", "below", "undecided"]
"""knee: both sides shown, nothing lies between. between: both shown, levels between are open. at-least: only that a
level keeps is shown. below: shown that even the lowest candidate breaks, nothing shown to keep."""


class KneeRules(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed before the first start. Raises ValueError on rules that make no sense."""

    first: int = 1
    """Level at which the doubling begins."""
    most: int = 256
    """Highest level that is tried."""
    resolution: float = 0.05
    """Relative distance of two levels that is close enough; whole numbers next to each other always are."""
    repeats: int = 6
    """Fresh starts of a level whose claim is tested."""
    confidence: float = 0.95
    """Of each side's claim, whatever number of levels was tested for it."""
    candidates: int = 3
    """Levels that are tested at most on each side."""
    ladder: tuple[int, ...] = ()
    """Levels that are all measured instead of searching; empty: search."""

    def __post_init__(self) -> None:
        if not (1 <= self.first <= self.most and 0 <= self.resolution < 1 and self.candidates >= 1):
            raise ValueError("need 1 <= first <= most, 0 <= resolution < 1, candidates >= 1")
        if self.repeats < 3 or not 0.5 <= self.confidence < 1:
            raise ValueError("need repeats >= 3 and 0.5 <= confidence < 1")
        if list(self.ladder) != sorted(set(self.ladder)) or (self.ladder and self.ladder[0] < 1):
            raise ValueError(f"the levels must rise from 1 or more, not {self.ladder}")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One start at one level."""

    level: int
    stage: Stage
    margins: dict[str, float] = {}
    """Limit metric to ln(value / limit), signed so that above 0 is over the limit. Empty if it failed."""
    failed: str = ""
    """Why there are no margins, e.g. `out-of-memory`."""
    ours: bool = False
    """The failure was the client's or this machine's, so it says nothing about the server."""

    @property
    def kept(self) -> bool:
        """True if this very start kept every limit."""
        return not self.failed and all(margin <= 0 for margin in self.margins.values())


class Probe(msgspec.Struct, frozen=True):
    """The start that is needed next."""

    stage: Stage
    level: int
    number: int
    """From 1, of this stage at this level."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One level tested for one side."""

    level: int
    side: Side
    shown: bool
    alpha: float
    """One-sided level of this test."""
    starts: int
    kept: int
    """Starts that kept every limit."""
    failed: int
    means: dict[str, float] = {}
    """Limit metric to the mean margin over starts; empty if one failed or there are fewer than two."""
    bounds: dict[str, float] = {}
    """Upper bounds of the mean margins for `keeps`, lower ones for `breaks`."""
    share_low: float = 0.0
    """Exact lower bound of the share of starts that keep every limit, one-sided, at the confidence of the rules."""


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. 0 stands for no level."""

    says: Says
    at_least: int
    """Highest level shown to keep the limits."""
    breaks_at: int
    """Lowest level shown to break one."""
    confidence: float
    searched: tuple[int, int]
    """Highest level below the first that was over, and that first one, from one start each."""
    claims: tuple[Claim, ...]
    top: int
    """Highest level that was measured."""


def decide(seen: Sequence[Seen], rules: KneeRules) -> Probe | Knee:
    """What to measure next, or the answer. Pure: the same observations in any order give the same step."""
    search = {one.level: one for one in seen if one.stage == "search"}
    level = next_level({level: one.kept for level, one in search.items()}, rules)
    if level is not None:
        return Probe("search", level, 1)
    edge: dict[int, list[Seen]] = {}
    for one in seen:
        if one.stage == "edge":
            edge.setdefault(one.level, []).append(one)
    kept = [level for level, one in search.items() if one.kept]
    over = sorted(level for level, one in search.items() if not one.kept)
    low, high = max((level for level in kept if not over or level < over[0]), default=0), over[0] if over else 0
    below = [search[level] for level in sorted((level for level in kept if level <= low), reverse=True)]
    walked = _walk(edge, below, [search[level] for level in over], rules)
    return walked if isinstance(walked, Probe) else _answer(walked, (low, high), max(search), rules)


def next_level(kept: Mapping[int, bool], rules: KneeRules) -> int | None:
    """The next level of the search; None when it is over. `kept` holds what one start of each level gave.

    Doubling from `first` until a level is over its limits, then bisecting until two neighbours are close enough.
    """
    if rules.ladder:
        return next((level for level in rules.ladder if level not in kept), None)
    level = rules.first
    while kept.get(level, False) and level < rules.most:
        level = min(2 * level, rules.most)
    if level not in kept:
        return level
    if kept[level]:
        return None
    high = min(level for level, good in kept.items() if not good)
    low = max((level for level, good in kept.items() if good and level < high), default=0)
    return None if high - low <= step(low, rules) else (low + high) // 2


def step(level: int, rules: KneeRules) -> int:
    """Distance from this level that is close enough."""
    if rules.ladder:
        return next((higher - level for higher in rules.ladder if higher > level), 1)
    return max(1, int(rules.resolution * level))


def shares(rules: KneeRules, count: int) -> float:
    """Alpha of the test of the `count`-th level on one side (from 1): FIRST_SHARE of what the ones before it left."""
    return (1 - rules.confidence) * FIRST_SHARE * (1 - FIRST_SHARE) ** (count - 1)


def _walk(
    edge: Mapping[int, list[Seen]], below: Sequence[Seen], over: Sequence[Seen], rules: KneeRules
) -> Probe | list[Claim]:
    """Test `keeps` from the edge downwards until one is shown, then `breaks` upwards until one is shown.

    A level that is not shown the one is tested for the other with the same starts: the search may have been wrong.
    """
    tests = _Tests(rules)
    sides: tuple[tuple[Side, Sequence[Seen]], ...] = (("keeps", below), ("breaks", over))
    for side, candidates in sides:
        left = list(candidates)
        for _ in range(rules.candidates):
            if not left or tests.shown(side):
                break
            starts = edge.get(left[0].level, [])
            if len(starts) < rules.repeats:
                return Probe("edge", left[0].level, len(starts) + 1)
            if not tests.test(side, starts):
                reach = tests.reach()
                tests.test("breaks" if side == "keeps" else "keeps", starts)
                left = _clearer(left[1:], reach)
    return tests.claims


def _clearer(left: Sequence[Seen], reach: float) -> list[Seen]:
    """The candidates from the first one on that lay further from its limits in the search than the bound reached at
    the last one; the furthest where none does. Its own starts have no part in the choice."""
    clear = next((place for place, one in enumerate(left) if abs(_worst(one)) >= reach), len(left) - 1)
    return list(left[max(clear, 0) :])


def _worst(one: Seen) -> float:
    return max(one.margins.values(), default=math.inf)


class _Tests:
    """The claims tested so far, and what of alpha the next one gets."""

    def __init__(self, rules: KneeRules) -> None:
        self.claims: list[Claim] = []
        self._rules = rules

    def test(self, side: Side, starts: Sequence[Seen]) -> bool:
        """Test one level and note the claim."""
        claim = claim_keeps if side == "keeps" else claim_breaks
        self.claims.append(claim(starts, self._share(side), self._rules))
        return self.claims[-1].shown

    def shown(self, side: Side) -> bool:
        """Has this side been shown of some level?"""
        return any(claim.side == side and claim.shown for claim in self.claims)

    def reach(self) -> float:
        """Largest distance of a bound from its mean in the last claim."""
        last = self.claims[-1]
        return max((abs(last.bounds[metric] - mean) for metric, mean in last.means.items()), default=0.0)

    def _share(self, side: Side) -> float:
        return shares(self._rules, 1 + sum(claim.side == side for claim in self.claims))


def claim_keeps(starts: Sequence[Seen], alpha: float, rules: KneeRules) -> Claim:
    """Is this level shown to keep every limit? All starts must have run, and of every limit the one-sided upper t bound
    of the mean margin must be at most 0. All limits must pass, so each is tested at the whole alpha
    (intersection-union test: Berger, Technometrics 24(4), 1982)."""
    means, bounds = _bounds(starts, alpha, sign=1.0)
    shown = len(starts) >= rules.repeats and bool(bounds) and all(bound <= 0 for bound in bounds.values())
    tallied = _tallied(starts, "keeps", alpha, rules)
    return msgspec.structs.replace(tallied, shown=shown, means=means, bounds=bounds)


def claim_breaks(starts: Sequence[Seen], alpha: float, rules: KneeRules) -> Claim:
    """Is this level shown to break a limit? Half of alpha goes to the margins, split over the limits (Bonferroni): a
    lower t bound above 0. Half goes to the count of starts that broke a limit or failed, by the exact sign test
    against one half, so that a level at which servers die can be shown to break too."""
    limits = max((len(one.margins) for one in starts), default=0)
    means, bounds = _bounds(starts, alpha / 2 / max(limits, 1), sign=-1.0)
    bad = sum(not one.kept for one in starts)
    by_count = binomial_tail(bad, len(starts), 0.5) <= alpha / 2
    sound = len(starts) >= rules.repeats and not any(one.ours for one in starts)
    shown = sound and (by_count or any(bound > 0 for bound in bounds.values()))
    tallied = _tallied(starts, "breaks", alpha, rules)
    return msgspec.structs.replace(tallied, shown=shown, means=means, bounds=bounds)


def _bounds(starts: Sequence[Seen], alpha: float, sign: float) -> tuple[dict[str, float], dict[str, float]]:
    """Mean margins and their one-sided t bounds; nothing where a start failed or there are fewer than two."""
    if len(starts) < 2 or any(one.failed for one in starts):
        return {}, {}
    samples = {metric: spread([one.margins[metric] for one in starts]) for metric in starts[0].margins}
    reach = t_quantile(1 - alpha, len(starts) - 1) / math.sqrt(len(starts))
    return (
        {metric: sample.mean for metric, sample in samples.items()},
        {metric: sample.mean + sign * reach * sample.sd for metric, sample in samples.items()},
    )


def _tallied(starts: Sequence[Seen], side: Side, alpha: float, rules: KneeRules) -> Claim:
    kept = sum(one.kept for one in starts)
    return Claim(
        level=starts[0].level,
        side=side,
        shown=False,
        alpha=alpha,
        starts=len(starts),
        kept=kept,
        failed=sum(bool(one.failed) for one in starts),
        share_low=binomial_low(kept, len(starts), 1 - rules.confidence),
    )


def _answer(claims: Sequence[Claim], searched: tuple[int, int], top: int, rules: KneeRules) -> Knee:
    at_least = max((claim.level for claim in claims if claim.side == "keeps" and claim.shown), default=0)
    breaks_at = min((claim.level for claim in claims if claim.side == "breaks" and claim.shown), default=0)
    says: Says = "undecided"
    if at_least and breaks_at:
        says = "knee" if breaks_at - at_least <= step(at_least, rules) else "between"
    elif at_least:
        says = "at-least"
    elif breaks_at:
        says = "below"
    return Knee(
        says=says,
        at_least=at_least,
        breaks_at=breaks_at,
        confidence=rules.confidence,
        searched=searched,
        claims=tuple(claims),
        top=top,
    )
