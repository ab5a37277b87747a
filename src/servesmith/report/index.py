"""Which runs there are in a folder, newest first, and how each ended."""

from pathlib import Path
from typing import Literal

import msgspec

from servesmith.errors import ServesmithError
from servesmith.report.headline import COMPARING
from servesmith.report.summary import summarise
from servesmith.store.journal import JOURNAL, is_locked, read_events

State = Literal["running", "unfinished", "done", "budget", "failed", "interrupted", "broken"]


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list."""

    folder: str
    verb: str
    began: str
    state: State
    """running: its journal is open for writing. broken: its journal cannot be read."""
    trials: int
    says: str
    sentence: str


def index(folder: Path) -> tuple[RunRow, ...]:
    """The runs directly under a folder, newest first by name. A broken one is listed as such, not raised."""
    found = sorted((path.parent for path in folder.glob(f"*/{JOURNAL}")), reverse=True)
    return tuple(_row(run) for run in found)


def _row(run: Path) -> RunRow:
    try:
        summary = summarise(read_events(run))
    except ServesmithError as error:
        return RunRow(folder=str(run), verb="", began="", state="broken", trials=0, says="", sentence=error.message)
    state: State = "running" if summary.ending == "unfinished" and is_locked(run) else summary.ending
    return RunRow(
        folder=str(run),
        verb=summary.verb,
        began=summary.began,
        state=state,
        trials=summary.time.trials,
        says=summary.headline.says if summary.verb in COMPARING else "",
        sentence=summary.headline.sentence,
    )
