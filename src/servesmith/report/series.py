"""What the charts draw, as plain data: points, bars and curves computed from a summary and from raw records. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.select import ended_well, first_seen
from servesmith.report.nouns import Comparison, Summary
from servesmith.report.words import amount, interval, percent
from servesmith.stats.verdict import Arm, Estimate
from servesmith.units import NANOS_PER_MS

MOST_POINTS = 240
"""Points of a distribution's curve. More than the eye can tell apart."""


class Lane(msgspec.Struct, frozen=True):
    """One decision as a lane of the block chart; effects in per cent, positive is better."""

    label: str
    note: str
    points: tuple[float, ...]
    effect: float | None
    low: float
    high: float


class Bar(msgspec.Struct, frozen=True):
    """One bar of the waterfall, in the unit of the metric."""

    label: str
    note: str
    kind: Literal["base", "gain", "loss", "final"]
    start: float
    end: float
    low: float
    high: float
    """Ends of the interval's whisker; equal where there is none."""


class Curve(msgspec.Struct, frozen=True):
    """A distribution: share of the sample at or under each x."""

    arm: Arm
    x: tuple[float, ...]
    share: tuple[float, ...]
    size: int


class Latencies(msgspec.Struct, frozen=True):
    """Latencies of both arms over all deciding trials, in milliseconds."""

    ttft: tuple[Curve, ...] = ()
    tpot: tuple[Curve, ...] = ()


_STAGES = {"prove": "proof", "compare": "comparison", "confirm": "confirming", "ablate": "ablation"}
"""What a stage is called, in the order of the lanes."""


_SIDES = {"prove": "final recipe", "compare": "B against A"}
"""What is compared where the subject of the decision is not a lever; recipes have names of any length."""


def lanes(comparisons: Sequence[Comparison]) -> tuple[Lane, ...]:
    """A lane for every decision that has a block; what decides the run comes first."""
    ordered = sorted(comparisons, key=lambda comparison: list(_STAGES).index(comparison.stage))
    return tuple(_lane(comparison) for comparison in ordered if comparison.points)


def waterfall(summary: Summary) -> tuple[Bar, ...]:
    """Baseline, one step a kept lever, what they do together beyond their worths, final.

    Worths multiply: each step is drawn from where the one before ended, so with two levers and more a last step shows
    final / (baseline * product of the worths). Empty unless every kept lever has a worth.
    """
    head = summary.headline
    worths = [worth for worth in summary.ablation if worth.effect is not None]
    if head.baseline is None or head.final is None or not worths or len(worths) != len(summary.levers_kept):
        return ()
    if head.better != "higher":
        return ()
    bars = [Bar("baseline", amount(head.baseline), "base", 0.0, head.baseline, head.baseline, head.baseline)]
    level = head.baseline
    for worth in worths:
        assert worth.effect is not None
        bars.append(_step(worth.lever, level, worth.effect))
        level *= worth.effect.ratio
    if len(worths) > 1:
        rest = head.final / level
        bars.append(_step("together", level, Estimate(rest, rest, rest, 0.0)))
    bars.append(Bar("final recipe", amount(head.final), "final", 0.0, head.final, head.final, head.final))
    return tuple(bars)


def latencies(arms: Iterable[tuple[Arm, Sequence[RequestRecord], Window]]) -> Latencies:
    """Distributions of TTFT and TPOT of each arm, over the requests that the metrics of these names count."""
    ttft: dict[Arm, list[float]] = {}
    tpot: dict[Arm, list[float]] = {}
    for arm, records, window in arms:
        ttft.setdefault(arm, []).extend(_ttft(records, window))
        tpot.setdefault(arm, []).extend(_tpot(records, window))
    return Latencies(_curves(ttft), _curves(tpot))


def per_cent(log_ratio: float) -> float:
    """A log ratio as a change in per cent."""
    return 100 * math.expm1(log_ratio)


def _lane(comparison: Comparison) -> Lane:
    effect = comparison.verdict.effect
    label = _SIDES.get(comparison.stage, comparison.subject)
    ends = [100 * (value - 1) for value in (effect.ratio, effect.low, effect.high)] if effect else [0.0, 0.0, 0.0]
    return Lane(
        label=label,
        note=f"{_STAGES[comparison.stage]}: {comparison.verdict.says}",
        points=tuple(per_cent(point.log_ratio) for point in comparison.points),
        effect=ends[0] if effect else None,
        low=ends[1],
        high=ends[2],
    )


def _step(label: str, level: float, effect: Estimate) -> Bar:
    end = level * effect.ratio
    note = interval(effect) if effect.high > effect.low else percent(effect.ratio)
    return Bar(label, note, "gain" if end >= level else "loss", level, end, level * effect.low, level * effect.high)


def _ttft(records: Sequence[RequestRecord], window: Window) -> list[float]:
    return [
        (record.first_token_ns - record.sent_ns) / NANOS_PER_MS
        for record in first_seen(records, window)
        if record.first_token_ns is not None
    ]


def _tpot(records: Sequence[RequestRecord], window: Window) -> list[float]:
    return [
        (record.last_token_ns - record.first_token_ns) / (record.output_tokens - 1) / NANOS_PER_MS
        for record in ended_well(records, window)
        if record.output_tokens > 1 and record.first_token_ns is not None and record.last_token_ns is not None
    ]


def _curves(samples: dict[Arm, list[float]]) -> tuple[Curve, ...]:
    return tuple(_curve(arm, sample) for arm, sample in sorted(samples.items()) if sample)


def _curve(arm: Arm, sample: Sequence[float]) -> Curve:
    """The empirical distribution, thinned to evenly spaced shares; its first and last value always stay."""
    ordered = np.sort(np.asarray(sample, dtype=np.float64))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_POINTS)).round().astype(np.int64))
    x = tuple(round(float(ordered[place]), 4) for place in places)
    share = tuple(round((int(place) + 1) / len(ordered), 5) for place in places)
    return Curve(arm, (x[0], *x), (0.0, *share), len(ordered))
