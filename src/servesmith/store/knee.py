"""From the trials of a knee run to its answer: the one place where that is done, for the loop and for `verify`."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.metrics import METRICS
from servesmith.measure.records import Metric
from servesmith.stats.knee import Knee, KneeRules, Probe, Seen, Stage, decide
from servesmith.stats.sample import percent
from servesmith.store.events import KneeFound, RunOpened, TrialResult
from servesmith.store.journal import JOURNAL
from servesmith.store.replay import Replay

DIALS = {"streams": "stream"}
"""What a level turns, and the noun of one: streams of a closed loop."""
_KEY = re.compile(r"(search|edge)/(\w+)=(\d+)/(\d+)")
_OURS = ("client-too-slow", "interrupted", "port")
"""Failures that say nothing about the server."""


class Place(msgspec.Struct, frozen=True):
    """Which start of which level a trial is."""

    stage: Stage
    dial: str
    level: int
    number: int

    @property
    def key(self) -> str:
        """The trial's key."""
        return f"{self.stage}/{self.dial}={self.level}/{self.number}"


def place_of_key(key: str) -> Place | None:
    """The inverse of `Place.key`; None for other trials."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    stage, dial, level, number = found.groups()
    return Place("edge" if stage == "edge" else "search", dial, int(level), int(number))


def rules_as_values(rules: KneeRules) -> dict[str, float | int | str | bool]:
    """Flat values for the journal."""
    return {**msgspec.to_builtins(rules), "ladder": ",".join(str(level) for level in rules.ladder)}


def knee_rules_of(opened: RunOpened) -> KneeRules:
    """The inverse of `rules_as_values`. Raises EvidenceError if the journal's settings are none."""
    ladder = str(opened.settings.get("ladder", ""))
    values = {**opened.settings, "ladder": [int(level) for level in ladder.split(",") if level]}
    try:
        return msgspec.convert(values, KneeRules, strict=False)
    except msgspec.ValidationError as error:
        raise EvidenceError(JOURNAL, f"its settings are no rules of a knee: {error}.") from error


def margin(key: str, metric: Metric, limit: float) -> float:
    """How far over its limit: ln(value / limit), turned round where higher is better; above 0 is over.

    Fractions, which may be 0, are taken as they are: value - limit.
    """
    sign = 1.0 if METRICS[key].better == "lower" else -1.0
    if metric.unit == "fraction" or metric.value <= 0:
        return sign * (metric.value - limit)
    return sign * math.log(metric.value / limit)


def seen(results: Iterable[TrialResult], limits: Mapping[str, float]) -> list[Seen]:
    """What the trials of a knee run say, in the order given; other trials are passed over.

    A trial without a metric that is limited counts as failed.
    """
    found: list[Seen] = []
    for result in results:
        place = place_of_key(result.key)
        if place is None:
            continue
        missing = next((key for key in limits if key not in result.metrics), "")
        if result.ending != "ok" or missing:
            reason = result.failure if result.ending != "ok" else f"no {missing} in the window"
            ours = result.failure in _OURS
            found.append(Seen(level=place.level, stage=place.stage, failed=reason or result.ending, ours=ours))
            continue
        margins = {key: margin(key, result.metrics[key], limit) for key, limit in limits.items()}
        found.append(Seen(level=place.level, stage=place.stage, margins=margins))
    return found


def check_knees(folder: Path, run: Replay, limits: Mapping[str, float], recipe: str) -> str:
    """Recompute the answer of a knee run. Raises EvidenceError where it differs, or where a trial was not what its
    key says: of another recipe, or at another level."""
    events = [event for event in run.events if isinstance(event, KneeFound)]
    for event in events:
        if event.limits != dict(limits):
            raise EvidenceError(JOURNAL, f"the knee is told for the limits {event.limits}, the case has {limits}.")
        for result in run.results.values():
            _same_level(folder, result, recipe)
        found = decide(seen(run.results.values(), limits), knee_rules_of(run.opened))
        if isinstance(found, Probe):
            raise EvidenceError(JOURNAL, f"a knee is told, but a start at level {found.level} is still missing.")
        for field in Knee.__struct_fields__:
            told, now = getattr(event.knee, field), getattr(found, field)
            if told != now:
                raise EvidenceError(JOURNAL, f"the knee's {field} is told as {told}, its trials give {now}.")
    return f"{len(events)} knee{'s' * (len(events) != 1)} recomputed from the numbers of single starts"


class _Load(msgspec.Struct):
    streams: int


class _Errand(msgspec.Struct):
    load: _Load


class _Asked(msgspec.Struct):
    errand: _Errand


def _same_level(folder: Path, result: TrialResult, recipe: str) -> None:
    place = place_of_key(result.key)
    if place is None:
        return
    if result.recipe_hash != recipe:
        raise EvidenceError(JOURNAL, f"{result.key} served recipe {result.recipe_hash}, not {recipe}.")
    file = f"{result.folder}/outcome.json"
    try:
        asked = msgspec.json.decode((folder / file).read_bytes(), type=_Asked).errand.load
    except (OSError, msgspec.MsgspecError) as error:
        raise EvidenceError(file, f"does not say what load was asked for: {error}.") from error
    if place.dial == "streams" and asked.streams != place.level:
        raise EvidenceError(file, f"asked for {asked.streams} streams, its key says {place.level}.")


def limits_in_words(limits: Mapping[str, float]) -> str:
    """`ttft_p95_ms <= 2000`, several with `and`."""
    signs = {"lower": "<=", "higher": ">="}
    return " and ".join(f"{key} {signs[METRICS[key].better]} {limit:g}" for key, limit in limits.items())


def answer_in_words(event: KneeFound) -> str:
    """The answer as a sentence with its confidence."""
    knee, limits = event.knee, limits_in_words(event.limits)
    sure = percent(knee.confidence, 0)

    def some(level: int) -> str:
        return f"{level} {DIALS[event.dial]}{'s' * (level != 1)}"

    match knee.says:
        case "knee":
            return (
                f"The knee is {some(knee.at_least)}: {knee.at_least} shown to keep {limits}, {knee.breaks_at} shown "
                f"to break it, each with {sure} confidence."
            )
        case "between":
            return (
                f"At least {some(knee.at_least)} keep {limits}, and {knee.breaks_at} break it, each with {sure} "
                f"confidence; between {knee.at_least} and {knee.breaks_at} it is undecided."
            )
        case "at-least":
            over = (
                f"; {some(knee.searched[1])} were over it in one start, which shows nothing" if knee.searched[1] else ""
            )
            return (
                f"At least {some(knee.at_least)} keep {limits} with {sure} confidence; no level up to {knee.top} was "
                f"shown to break it{over}."
            )
        case "below":
            return (
                f"No number of {DIALS[event.dial]}s was shown to keep {limits}; {some(knee.breaks_at)} "
                f"break{'s' * (knee.breaks_at == 1)} it with {sure} confidence."
            )
        case "undecided":
            return f"Undecided: nothing was shown about {limits}; {_single_starts(knee)}.{_failures(knee)}"


def _single_starts(knee: Knee) -> str:
    """What the search saw, which shows nothing."""
    low, high = knee.searched
    return f"single starts put the edge between {low} and {high}" if high else f"single starts kept it up to {low}"


def _failures(knee: Knee) -> str:
    starts = {claim.level: claim for claim in knee.claims}.values()
    failed = sum(claim.failed for claim in starts)
    return f" {failed} of {sum(claim.starts for claim in starts)} starts at the edge failed." if failed else ""
