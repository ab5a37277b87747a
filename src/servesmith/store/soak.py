"""From the records of a soak to its verdict: the one place where that is done, for the loop and for `verify`."""

from pathlib import Path

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.evidence import Measured, read_measured
from servesmith.measure.series import failures, memory_bins, rate_bins
from servesmith.stats.soak import BINS, SoakRules, SoakVerdict, count_errors, judge_soak
from servesmith.store.events import RunOpened, Soaked, TrialResult
from servesmith.store.journal import JOURNAL
from servesmith.store.replay import Replay

DEATHS = ("out-of-memory", "crash", "hang", "timeout")
"""Failures of a trial in which the server itself came to its end."""


def soak_rules_of(opened: RunOpened) -> SoakRules:
    """The rules that the run was opened with."""
    return msgspec.convert(dict(opened.settings), SoakRules, strict=False)


def verdict_on(measured: Measured, result: TrialResult, rules: SoakRules) -> SoakVerdict:
    """Judge what a soak left."""
    window = measured.window
    ended, tenths = failures(measured.records, window)
    return judge_soak(
        rate_bins(measured.records, window, BINS),
        memory_bins(measured.counters.memory, window, BINS),
        count_errors(ended, tenths, rules),
        rules,
        died=f"{result.failure}: {result.log_line}" if result.failure in DEATHS else "",
    )


def check_soaks(folder: Path, run: Replay) -> str:
    """Recompute every verdict of a soak from its records. Raises EvidenceError where one differs."""
    events = [event for event in run.events if isinstance(event, Soaked)]
    for event in events:
        result = run.results.get(event.trial)
        if result is None:
            raise EvidenceError(JOURNAL, f"a soak stands on trial {event.trial}, which is not recorded.")
        found = verdict_on(read_measured(folder / result.folder), result, soak_rules_of(run.opened))
        for field in SoakVerdict.__struct_fields__:
            told, now = getattr(event.verdict, field), getattr(found, field)
            if told != now:
                raise EvidenceError(JOURNAL, f"the soak's {field} is told as {told}, its records give {now}.")
    return f"{len(events)} soak{'s' * (len(events) != 1)} judged again from raw records"
