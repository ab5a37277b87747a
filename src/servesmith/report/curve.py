"""The latency-throughput curve of a knee run, and which of its levels no other one beats. Pure."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from servesmith.report.nouns import CurvePoint
from servesmith.stats.knee import Knee
from servesmith.stats.sample import median
from servesmith.store.events import KneeFound, TrialResult
from servesmith.store.knee import margin, place_of_key
from servesmith.store.replay import Replay


def found_knee(run: Replay) -> KneeFound | None:
    """The answer, if the run came to one."""
    return next((event for event in reversed(run.events) if isinstance(event, KneeFound)), None)


def curve(run: Replay) -> tuple[CurvePoint, ...]:
    """One point a level, rising. Levels of which no start went well have no place on the curve but stand in it."""
    event = found_knee(run)
    limits = event.limits if event else {}
    levels: dict[int, list[TrialResult]] = {}
    for result in run.results.values():
        if (place := place_of_key(result.key)) is not None:
            levels.setdefault(place.level, []).append(result)
    says = _shown(event.knee) if event else {}
    return _with_fronts([_point(level, levels[level], limits, says.get(level, "")) for level in sorted(levels)])


def pareto(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Of each point (both numbers: higher is better) whether no other one is as good in both and better in one."""
    return tuple(
        not any(other != one and other[0] >= one[0] and other[1] >= one[1] for other in points) for one in points
    )


def _shown(knee: Knee) -> dict[int, str]:
    return {claim.level: claim.side for claim in knee.claims if claim.shown}


def _point(level: int, results: Sequence[TrialResult], limits: Mapping[str, float], says: str) -> CurvePoint:
    good = [result for result in results if result.ending == "ok"]

    def middle(key: str) -> float:
        values = [result.metrics[key].value for result in good if key in result.metrics]
        return median(values) if values else 0.0

    def keeps(result: TrialResult) -> bool:
        return all(
            key in result.metrics and margin(key, result.metrics[key], limit) <= 0 for key, limit in limits.items()
        )

    tpot = middle("tpot_mean_ms")
    return CurvePoint(
        level=level,
        starts=len(results),
        failed=len(results) - len(good),
        output_tokens_per_s=middle("output_tokens_per_s"),
        interactivity=1000 / tpot if tpot else 0.0,
        ttft_p95_ms=middle("ttft_p95_ms"),
        tpot_mean_ms=tpot,
        limits={key: middle(key) for key in limits},
        kept=sum(keeps(result) for result in good),
        says=says,
    )


def _with_fronts(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    fronts: dict[int, tuple[str, ...]] = {point.level: () for point in points}
    for name, cost in (("interactivity", _interactivity), ("ttft", _quickness)):
        known = [point for point in points if point.output_tokens_per_s and cost(point)]
        best = pareto([(point.output_tokens_per_s, cost(point)) for point in known])
        for point, on_front in zip(known, best, strict=True):
            fronts[point.level] += (name,) if on_front else ()
    return tuple(replace(point, front=fronts[point.level]) for point in points)


def _interactivity(point: CurvePoint) -> float:
    return point.interactivity


def _quickness(point: CurvePoint) -> float:
    return 1 / point.ttft_p95_ms if point.ttft_p95_ms else 0.0
