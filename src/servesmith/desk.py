"""Where an errand works: a running server, the trial's folder, and who looks on. And what it brings back."""

from pathlib import Path
from typing import Protocol

import msgspec

from servesmith.engine.base import Failure
from servesmith.measure.records import Metric
from servesmith.measure.startup import Startup
from servesmith.store.events import Ending
from servesmith.store.watch import Watcher


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """All that an errand may use."""

    url: str
    pid: int
    """Of the server's first process; 0 if someone else runs it."""
    key: str
    """Bearer key, empty if none. Never written anywhere."""
    folder: Path
    trial: str
    seed: int
    watch: Watcher
    startup: Startup | None = None
    """Stamps of the server's start; None if someone else runs it."""


class Outcome(msgspec.Struct, frozen=True):
    """What an errand brought back."""

    ending: Ending
    failure: Failure = Failure("", "")
    metrics: dict[str, Metric] = {}


class Errand(Protocol):
    """What a trial does with the running server: put a load on it, or ask it questions. A msgspec struct."""

    def run(self, desk: Desk) -> Outcome:
        """Do it and write its files into the desk's folder."""
        ...
