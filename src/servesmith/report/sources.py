"""What a page needs beside the summary: exact commands and raw records, read from the folders of trials."""

from pathlib import Path

import msgspec

from servesmith.measure.evidence import RECORDS
from servesmith.measure.parquet import read_frame
from servesmith.report.nouns import Summary, deciding
from servesmith.report.series import Latencies, Track, latencies, tracks
from servesmith.report.tables import arm_names
from servesmith.stats.verdict import Arm

COMMAND = "command.txt"


class Served(msgspec.Struct, frozen=True):
    """One recipe that was served: what it is called, its hash, and the command as it was run."""

    name: str
    recipe_hash: str
    command: str
    trial: str


class Sources(msgspec.Struct, frozen=True):
    """Read from files of the run, all of them covered by hashes of the journal."""

    served: tuple[Served, ...]
    latencies: Latencies
    course: tuple[Track, ...] = ()
    """The last good trial of a run that compared nothing, over time."""


def read_sources(folder: Path, summary: Summary) -> Sources:
    """Commands, latencies and the course of a run. A trial that left no such file is passed over; a broken one is an
    EvidenceError."""
    return Sources(_served(folder, summary), _latencies(folder, summary), _course(folder, summary))


def _served(folder: Path, summary: Summary) -> tuple[Served, ...]:
    """One entry a recipe hash: the deciding A and B first, the others under the trial that served them first."""
    names = dict(zip(_arm_hashes(summary), arm_names(summary), strict=False))
    found: dict[str, Served] = {}
    for trial in summary.trials:
        path = folder / trial.folder / COMMAND
        if trial.recipe_hash not in found and path.is_file():
            name = names.get(trial.recipe_hash, trial.key)
            found[trial.recipe_hash] = Served(name, trial.recipe_hash, path.read_text().strip(), trial.key)
    return tuple(sorted(found.values(), key=lambda served: served.recipe_hash not in names))


def _arm_hashes(summary: Summary) -> tuple[str, ...]:
    comparison = deciding(summary.comparisons)
    if comparison is None or not comparison.trials:
        return ()
    hashes = {trial.key: trial.recipe_hash for trial in summary.trials}
    return hashes[comparison.trials[0]], hashes[comparison.trials[1]]


def _latencies(folder: Path, summary: Summary) -> Latencies:
    if summary.curve:
        return Latencies((), ())  # a distribution over all levels would be of no level
    comparison = deciding(summary.comparisons)
    keys = comparison.trials if comparison else tuple(t.key for t in summary.trials if t.ending == "ok")
    folders = {trial.key: folder / trial.folder / RECORDS for trial in summary.trials}
    arms: list[tuple[Arm, Path]] = [
        ("B" if comparison is None or place % 2 else "A", folders[key]) for place, key in enumerate(keys)
    ]
    return latencies((arm, *read_frame(path)) for arm, path in arms if path.is_file())


def _course(folder: Path, summary: Summary) -> tuple[Track, ...]:
    good = [folder / trial.folder / RECORDS for trial in summary.trials if trial.ending == "ok"]
    if not summary.metrics or summary.curve or not good or not good[-1].is_file():
        return ()
    return tracks(*read_frame(good[-1]))
