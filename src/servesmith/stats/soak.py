"""A soak: does a server hold its pace, its memory and its answers over a long load? Pure.

Series are cut into bins of equal length whose means are fitted by a straight line. Neighbouring bins of a server are
alike (waves of requests, a slow neighbour), so the standard error of the slope is widened by the autocorrelation of the
residuals: n becomes n (1 - r) / (1 + r) for an AR(1) series (Bayley and Hammersley, Suppl. J. R. Stat. Soc. 8, 1946).
The r of so short a series is too small by about (2 + 4 r) / n where a line was fitted (cf. Kendall, Biometrika 41,
1954); that is corrected, and r is never taken under 0. How well the bounds hold is simulated, see docs/knee.md.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from servesmith.stats.distributions import binomial_tail, t_quantile
from servesmith.stats.sample import percent

BINS = 40
SHORTEST = 20
"""With fewer bins no trend is told."""

Says = Literal["steady", "degrading", "undecided"]


class SoakRules(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed before the load began."""

    tolerance: float = 0.05
    """Relative change over the whole soak that is borne: of throughput downwards, of memory upwards."""
    confidence: float = 0.95
    """One-sided, of each bound."""
    most_errors: float = 0.01
    """Share of failed requests that is borne."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """A straight line through the bins: relative change from the start to the end of the soak."""

    change: float
    """0.03: it ended 3 % of the mean higher than it began."""
    low: float
    high: float
    """One-sided bounds at the confidence of the rules, each."""
    mean: float
    bins: int
    correlation: float
    """Of neighbouring residuals, corrected for bias and not under 0."""


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that failed, over time."""

    requests: int
    failed: int
    tenths: tuple[int, ...]
    """Failed requests by tenths of the soak."""
    excess: bool
    """Shown that more than the share that is borne fail (exact binomial)."""
    within: bool
    """Shown or seen that no more than it fail: the observed share is at most it."""


class SoakVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Steady, degrading or undecided, with what each part says."""

    says: Says
    because: str
    throughput: Trend | None
    memory: Trend | None
    """None: the server's memory could not be read."""
    errors: Errors
    first_tenth: float
    last_tenth: float
    """Tokens/s of the first and the last tenth: for the eye, they decide nothing."""


def trend(values: Sequence[float], confidence: float) -> Trend | None:
    """The line through at least SHORTEST bins of equal length with a mean above 0; else None."""
    n = len(values)
    mean = math.fsum(values) / n if n else 0.0
    if n < SHORTEST or mean <= 0:
        return None
    places = [(place + 0.5) / n - 0.5 for place in range(n)]
    spread = math.fsum(place * place for place in places)
    slope = math.fsum(place * value for place, value in zip(places, values, strict=True)) / spread
    residuals = [value - mean - slope * place for place, value in zip(places, values, strict=True)]
    r = _correlation(residuals)
    effective = max(n * (1 - r) / (1 + r), 4.0)
    variance = math.fsum(residual * residual for residual in residuals) / (n - 2)
    error = math.sqrt(variance / spread * n / effective) / mean
    reach = t_quantile(confidence, effective - 2) * error
    change = slope / mean
    return Trend(change=change, low=change - reach, high=change + reach, mean=mean, bins=n, correlation=r)


def _correlation(residuals: Sequence[float]) -> float:
    """Of neighbours, corrected for the bias of a short series about a fitted line, between 0 and 0.9."""
    total = math.fsum(residual * residual for residual in residuals)
    if total <= 0:
        return 0.0
    raw = math.fsum(a * b for a, b in pairwise(residuals)) / total
    n = len(residuals)
    return min(0.9, max(0.0, (n * raw + 2) / (n - 4)))


def count_errors(ended: Sequence[bool], tenths: Sequence[int], rules: SoakRules) -> Errors:
    """`ended`: whether each request went well. `tenths`: failed ones by tenths of the soak."""
    failed = sum(not well for well in ended)
    alpha = 1 - rules.confidence
    return Errors(
        requests=len(ended),
        failed=failed,
        tenths=tuple(tenths),
        excess=binomial_tail(failed, len(ended), rules.most_errors) <= alpha if ended else False,
        within=failed <= rules.most_errors * len(ended),
    )


def judge_soak(
    rates: Sequence[float], memory: Sequence[float], errors: Errors, rules: SoakRules, *, died: str = ""
) -> SoakVerdict:
    """The verdict. `rates`: tokens/s of bins of equal length. `memory`: means of bins; empty: not read. `died`: how
    the server came to its end, if it did.

    degrading: even the bound on the good side lies beyond the tolerance, of throughput, memory or errors.
    steady: even the bound on the bad side lies within it, of each; memory that could not be read is left out and said.
    undecided: else.
    """
    pace, held = trend(rates, rules.confidence), trend(memory, rules.confidence)
    bad = [*([f"the server failed: {died}"] if died else []), *_bad(pace, held, errors, rules)]
    says: Says = "undecided"
    if bad:
        says = "degrading"
    elif _steady(pace, held, errors, rules, known=bool(memory)):
        says = "steady"
    tenth = max(1, len(rates) // 10)
    return SoakVerdict(
        says=says,
        because="; ".join(bad or _open(pace, held, errors, rules, known=bool(memory))) + ".",
        throughput=pace,
        memory=held,
        errors=errors,
        first_tenth=_mean(rates[:tenth]),
        last_tenth=_mean(rates[-tenth:]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _bad(pace: Trend | None, held: Trend | None, errors: Errors, rules: SoakRules) -> list[str]:
    """What was shown to get worse."""
    found: list[str] = []
    borne = percent(rules.tolerance)
    if pace is not None and pace.high < -rules.tolerance:
        found.append(f"throughput fell by {percent(-pace.change)} (at least {percent(-pace.high)}, borne are {borne})")
    if held is not None and held.low > rules.tolerance:
        found.append(f"memory grew by {percent(held.change)} (at least {percent(held.low)}, borne are {borne})")
    if errors.excess:
        share = percent(errors.failed / errors.requests)
        found.append(f"{share} of the requests failed, borne are {percent(rules.most_errors)}")
    return found


def _steady(pace: Trend | None, held: Trend | None, errors: Errors, rules: SoakRules, *, known: bool) -> bool:
    slow = pace is None or pace.low < -rules.tolerance
    grown = known and (held is None or held.high > rules.tolerance)
    return not slow and not grown and errors.within


def _open(pace: Trend | None, held: Trend | None, errors: Errors, rules: SoakRules, *, known: bool) -> list[str]:
    """Each part with its bounds, where nothing was shown to be bad."""
    parts = [
        f"throughput {_told(pace)}",
        f"memory {_told(held)}" if known else "memory could not be read and is left out",
        f"{errors.failed} of {errors.requests} requests failed",
    ]
    return [*parts, f"borne are {percent(rules.tolerance)} and {percent(rules.most_errors)} of failures"]


def _told(found: Trend | None) -> str:
    if found is None:
        return "gave too few bins for a trend"
    low, high = percent(found.low, sign=True), percent(found.high, sign=True)
    return f"changed by {percent(found.change, sign=True)} ({low} to {high})"
