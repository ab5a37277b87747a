"""The raw files of a measuring trial, and the numbers that follow from them: for the trial and for `verify` alike."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.counters import Snapshot
from servesmith.measure.metrics import compute
from servesmith.measure.parquet import read_doubts, read_records, write_records
from servesmith.measure.prefill import prefill_numbers
from servesmith.measure.records import Metric, RequestRecord, Window
from servesmith.measure.terms import Terms
from servesmith.units import Nanos

RECORDS = "requests.parquet"
COUNTERS = "counters.json"


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What was read beside the records."""

    before: Snapshot | None = None
    """The engine's own counters as the window opened."""
    after: Snapshot | None = None
    memory_peak_mib: float = 0.0
    """Largest resident memory of the server's processes during the load; 0: not read."""
    memory: tuple[tuple[Nanos, float], ...] = ()
    """Resident memory in MiB over time, in the clock of the records."""
    probe: Literal["", "prefill"] = ""
    """What was asked, where it was no load."""
    terms: Terms = Terms()
    """What numbers were asked for beside those that records alone give."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Everything raw that a load left."""

    records: Sequence[RequestRecord]
    window: Window
    doubts: Sequence[str]
    counters: Counters


def write_measured(folder: Path, measured: Measured) -> None:
    """Write requests.parquet and counters.json."""
    write_records(folder / RECORDS, measured.records, measured.window, measured.doubts)
    (folder / COUNTERS).write_bytes(msgspec.json.format(msgspec.json.encode(measured.counters), indent=1))


def read_measured(folder: Path) -> Measured:
    """Read both files. Raises EvidenceError naming the one that cannot be read."""
    records, window = read_records(folder / RECORDS)
    path = folder / COUNTERS
    try:
        counters = msgspec.json.decode(path.read_bytes(), type=Counters)
    except (OSError, msgspec.DecodeError) as error:
        raise EvidenceError(str(path), f"cannot be read: {error}", "Restore it from the original evidence.") from error
    return Measured(records=records, window=window, doubts=read_doubts(folder / RECORDS), counters=counters)


def numbers(measured: Measured) -> dict[str, Metric]:
    """Every metric that these files allow. Pure: equal files give equal numbers."""
    counters = measured.counters
    if counters.probe == "prefill":
        return prefill_numbers(measured.records, measured.doubts)
    metrics = compute(
        measured.records,
        measured.window,
        counters.before,
        counters.after,
        doubts=tuple(measured.doubts),
        terms=counters.terms,
    )
    if counters.memory_peak_mib:
        metrics["memory_peak_mib"] = Metric(counters.memory_peak_mib, "MiB", "lower")
    return metrics
