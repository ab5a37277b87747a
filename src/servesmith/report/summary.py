"""Journal to `Summary`. Pure: equal events give an equal summary, so it can be deleted and made again."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from servesmith.measure.records import Metric
from servesmith.report.curve import curve, found_knee
from servesmith.report.headline import headline, primary_metric
from servesmith.report.levers import ablation, lever_rows
from servesmith.report.nouns import Change, Comparison, Point, Summary, TimeSpent, TrialRow, deciding
from servesmith.report.words import metric_rank
from servesmith.stats.ranges import Range
from servesmith.stats.rules import Rules
from servesmith.stats.sample import log_ratios, median
from servesmith.stats.sequential import judge_fixed
from servesmith.stats.verdict import Estimate
from servesmith.store.decide import pairs_of, rules_of
from servesmith.store.events import (
    Decided,
    Event,
    Found,
    Gated,
    NoiseMeasured,
    Noted,
    Ranged,
    Resumed,
    RunOpened,
    Soaked,
    TrialEnded,
    TrialResult,
)
from servesmith.store.journal import read_chain
from servesmith.store.replay import START_TIME, Replay, reading, replay

_NUMBER = re.compile(r"\d[\d.,]*")


def read_summary(folder: Path) -> Summary:
    """All that is told about a run, from its journal. Raises InputError if there is none, and as `summarise`."""
    events, check = read_chain(folder)
    return summarise(events, check)


def summarise(events: Sequence[Event], journal: str = "") -> Summary:
    """All that is told about a run; `journal` is the last checksum of its journal.

    Raises EvidenceError if the journal contradicts itself.
    """
    run = replay(events)
    opened, closed = run.opened, run.closed
    comparisons = tuple(_comparison(run, decided) for decided in _last_decisions(run.events))
    main = deciding(comparisons)
    gates = tuple(event for event in run.events if isinstance(event, Gated))
    noise = next((event for event in reversed(run.events) if isinstance(event, NoiseMeasured)), None)
    levers = lever_rows(run, comparisons)
    return Summary(
        verb=opened.verb,
        name=opened.name,
        servesmith=opened.servesmith,
        began=opened.at,
        seed=opened.seed,
        case_hash=opened.case_hash,
        recipe_hash=closed.recipe_hash if closed else "",
        levers_kept=tuple(row.name for row in levers if row.status in ("kept", "undecided")),
        ending=closed.ending if closed else "unfinished",
        because=closed.because if closed else "",
        headline=headline(run, main, _gate_of(run, main, gates), levers),
        noise=noise,
        findings=_findings(run.events),
        levers=levers,
        comparisons=comparisons,
        ablation=ablation(comparisons, levers, rules_of(opened).alpha),
        changes=_changes(run, main) if main else (),
        metrics=_medians(run) if opened.verb in ("bench", "soak") else {},
        metrics_trials=len(_good(run)) if opened.verb in ("bench", "soak") else 0,
        gates=gates,
        knee=found_knee(run),
        curve=curve(run) if opened.verb == "knee" else (),
        ranges=_ranges(run.events),
        soak=next((event.verdict for event in reversed(run.events) if isinstance(event, Soaked)), None),
        trials=tuple(_trial_row(run, event.result) for event in run.events if isinstance(event, TrialEnded)),
        notes=_notes(run.events),
        doubts=_doubts(run, main),
        time=_time_spent(run),
        settings=opened.settings,
        machine=opened.machine,
        files=opened.files,
        journal=journal,
    )


def encode(summary: Summary) -> bytes:
    """The bytes of `summary.json`: indented, ending in a line feed, equal for equal summaries."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


def _ranges(events: Sequence[Event]) -> dict[str, dict[str, Range]]:
    """Of the last set of starts, by arm and metric."""
    found = [event.arms for event in events if isinstance(event, Ranged)]
    return found[-1] if found else {}


def _findings(events: Sequence[Event]) -> tuple[Found, ...]:
    """Each finding once, as it was first stated: a later round of the search states it again."""
    found = {event.finding: event for event in reversed(events) if isinstance(event, Found)}
    return tuple(reversed(found.values()))


def _notes(events: Sequence[Event]) -> tuple[str, ...]:
    """Who else measured on the machine, then what the run itself noted."""
    shared = (event.shared for event in events if isinstance(event, RunOpened | Resumed) and event.shared)
    return (*dict.fromkeys(shared), *(event.note for event in events if isinstance(event, Noted)))


def _last_decisions(events: Sequence[Event]) -> list[Decided]:
    """Decisions without those that a later one of the same stage and subject continued with more blocks."""
    decisions = [event for event in events if isinstance(event, Decided)]
    return [
        decided
        for place, decided in enumerate(decisions)
        if not any(
            (later.stage, later.subject) == (decided.stage, decided.subject)
            and later.trials[: len(decided.trials)] == decided.trials
            for later in decisions[place + 1 :]
        )
    ]


def _comparison(run: Replay, decided: Decided) -> Comparison:
    pairs = _readings(run, decided.trials, decided.verdict.metric)
    first = pairs[0][0] if pairs else Metric(0.0, "", "higher")
    a, b = ([pair[side].value for pair in pairs] for side in (0, 1))
    return Comparison(
        stage=decided.stage,
        subject=decided.subject,
        unit=first.unit,
        better=first.better,
        verdict=decided.verdict,
        points=tuple(
            Point(number, *values)
            for number, values in enumerate(zip(a, b, log_ratios(a, b, first.better), strict=True), start=1)
        ),
        trials=decided.trials,
        secondary=decided.secondary,
    )


def _readings(run: Replay, trials: Sequence[str], metric: str) -> list[tuple[Metric, Metric]]:
    """A and B of every block in which both have this metric."""
    found = [(reading(a, metric), reading(b, metric)) for a, b in pairs_of(trials, run.results)]
    return [(a, b) for a, b in found if a is not None and b is not None]


def _gate_of(run: Replay, main: Comparison | None, gates: tuple[Gated, ...]) -> Gated | None:
    """The last gate on what the deciding blocks call B; of a run that only gates, its last gate."""
    if main is None or not main.trials:
        return gates[-1] if gates else None
    final = run.results[main.trials[1]].recipe_hash
    return next((gate for gate in reversed(gates) if gate.recipe_hash == final), None)


def _changes(run: Replay, main: Comparison) -> tuple[Change, ...]:
    pairs = pairs_of(main.trials, run.results)
    keys = {START_TIME, *(key for pair in pairs for result in pair for key in result.metrics)}
    changes = (_change(run, main, key) for key in sorted(keys, key=metric_rank))
    return tuple(change for change in changes if change is not None)


def _change(run: Replay, main: Comparison, key: str) -> Change | None:
    pairs = _readings(run, main.trials, key)
    if not pairs:
        return None
    a, b = ([pair[side].value for pair in pairs] for side in (0, 1))
    effect = _plain_ratio(a, b, key)
    return Change(
        metric=key,
        unit=pairs[0][0].unit,
        better=pairs[0][0].better,
        baseline=median(a),
        final=median(b),
        effect=effect,
        reads=_reads(effect, pairs[0][0].better),
        blocks=len(pairs),
    )


def _plain_ratio(a: Sequence[float], b: Sequence[float], metric: str) -> Estimate | None:
    """B / A over blocks, not turned round for metrics where lower is better; None if a value has no logarithm."""
    if min(*a, *b) <= 0:
        return None
    return judge_fixed(log_ratios(a, b, "higher"), metric, Rules()).effect


def _reads(effect: Estimate | None, better: Literal["higher", "lower"]) -> Literal["better", "worse", "unclear"]:
    if effect is None or effect.low <= 1 <= effect.high:
        return "unclear"
    return "better" if (effect.low > 1) == (better == "higher") else "worse"


def _good(run: Replay) -> list[TrialResult]:
    return [result for result in run.results.values() if result.ending == "ok"]


def _medians(run: Replay) -> dict[str, Metric]:
    """Each metric's median over the good trials that have it, with the doubts of any of them. An interval is of the
    requests of one trial and says nothing about several."""
    keys = dict.fromkeys(key for result in _good(run) for key in (*result.metrics, START_TIME))
    found = {key: [value for result in _good(run) if (value := reading(result, key))] for key in keys}
    return {key: _median_of(readings) for key, readings in found.items() if readings}


def _median_of(readings: Sequence[Metric]) -> Metric:
    doubts = readings[0].doubts if len(readings) == 1 else _told_once(readings)
    value = median([metric.value for metric in readings])
    interval = readings[0].interval if len(readings) == 1 else None
    return msgspec.structs.replace(readings[0], value=value, doubts=doubts, interval=interval)


def _trial_row(run: Replay, result: TrialResult) -> TrialRow:
    arm = result.key.rpartition("/")[2]
    return TrialRow(
        key=result.key,
        folder=result.folder,
        arm="A" if arm == "A" else "B" if arm == "B" else "",
        ending=result.ending,
        reason=result.failure,
        log_line=result.log_line,
        recipe_hash=result.recipe_hash,
        began=result.began,
        seconds=result.seconds,
        ready_seconds=result.ready_seconds,
        value=reading(result, primary_metric(run)),
    )


def _doubts(run: Replay, main: Comparison | None) -> tuple[str, ...]:
    """Doubts on the verdict, then on its metric in the trials it stands on; where nothing was compared, on what a
    measurement of its own is about. A bench has its doubts beside its numbers."""
    if main is not None:
        readings = [metric for pair in _readings(run, main.trials, main.verdict.metric) for metric in pair]
        return (*main.verdict.doubts, *_told_once(readings))
    wanted = _ABOUT.get(run.opened.verb, ())
    knee = found_knee(run)
    about = tuple(knee.limits) if knee else wanted
    good = (result for result in run.results.values() if result.ending == "ok")
    return _told_once([result.metrics[key] for result in good for key in about if key in result.metrics])


_ABOUT = {"prefill": ("prefill_tokens_per_s",), "soak": ("output_tokens_per_s",)}
"""The metric that a measurement of its own is about."""


def _told_once(readings: Sequence[Metric]) -> tuple[str, ...]:
    """Doubts that differ in their numbers only are told once, by the first, with how many trials have one."""
    seen = [(_NUMBER.sub("#", doubt), doubt) for metric in readings for doubt in metric.doubts]
    counts = Counter(kind for kind, _ in seen)
    first = dict(reversed(seen))
    return tuple(f"{first[kind]} ({number} of {len(readings)} trials)" for kind, number in counts.items())


def _time_spent(run: Replay) -> TimeSpent:
    stages: dict[str, float] = {}
    for event in run.events:
        if isinstance(event, TrialEnded):
            stage = event.result.key.partition("/")[0]
            stages[stage] = stages.get(stage, 0.0) + event.result.seconds
    ended = sum(isinstance(event, TrialEnded) for event in run.events)
    return TimeSpent(trials=ended, seconds=sum(stages.values()), stages=stages)
