"""What the charts draw, as plain data: points, bars and curves computed from a summary and from raw records. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from servesmith.measure.frame import Frame
from servesmith.measure.records import Window
from servesmith.measure.samples import samples_of
from servesmith.measure.timeline import Timeline, timeline
from servesmith.report.nouns import Comparison, Summary
from servesmith.report.words import amount, interval, percent
from servesmith.stats.verdict import Arm, Estimate
from servesmith.units import NANOS_PER_SECOND

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


class Track(msgspec.Struct, frozen=True):
    """One quantity of a load over time, in parts of equal length."""

    key: str
    title: str
    x: tuple[float, ...]
    """Middle of each part, in seconds from the first request."""
    y: tuple[float | None, ...]
    opens: float
    """Where the window opens, on the same axis."""


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


def latencies(arms: Iterable[tuple[Arm, Frame, Window]]) -> Latencies:
    """Distributions of TTFT and TPOT of each arm, over the requests that the metrics of these names count."""
    ttft: dict[Arm, list[float]] = {}
    tpot: dict[Arm, list[float]] = {}
    for arm, frame, window in arms:
        samples = samples_of(frame, window)
        ttft.setdefault(arm, []).extend(samples["ttft"].tolist())
        tpot.setdefault(arm, []).extend(samples["tpot"].tolist())
    return Latencies(_curves(ttft), _curves(tpot))


def tracks(frame: Frame, window: Window) -> tuple[Track, ...]:
    """Token rate, requests in flight and TTFT from the first request to the end of the window; empty without any."""
    sent = frame.sent_ns[~frame.dropped]
    if not len(sent) or int(sent.min()) >= window.end_ns:
        return ()
    start = int(sent.min())
    found: Timeline = timeline(frame, Window(start, window.end_ns))
    x = tuple(round(at + found.part_s / 2, 4) for at in found.start_s)
    opens = max(0.0, (window.start_ns - start) / NANOS_PER_SECOND)
    named: tuple[tuple[str, str, tuple[float | None, ...]], ...] = (
        ("rate", "output tokens per second", found.output_tokens_per_s),
        ("flight", "requests in flight", found.in_flight),
        ("first", "time to first token (median), ms", found.ttft_p50_ms),
    )
    return tuple(
        Track(key, title, x, tuple(None if value is None else round(value, 4) for value in values), opens)
        for key, title, values in named
    )


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


def _curves(samples: dict[Arm, list[float]]) -> tuple[Curve, ...]:
    return tuple(_curve(arm, sample) for arm, sample in sorted(samples.items()) if sample)


def _curve(arm: Arm, sample: Sequence[float]) -> Curve:
    """The empirical distribution, thinned to evenly spaced shares; its first and last value always stay."""
    ordered = np.sort(np.asarray(sample, dtype=np.float64))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_POINTS)).round().astype(np.int64))
    x = tuple(round(float(ordered[place]), 4) for place in places)
    share = tuple(round((int(place) + 1) / len(ordered), 5) for place in places)
    return Curve(arm, (x[0], *x), (0.0, *share), len(ordered))
