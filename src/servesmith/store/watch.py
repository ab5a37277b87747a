"""Who looks on while a run goes. The loop tells a `Watcher`; what that one shows is its own affair."""

from typing import Protocol

from servesmith.store.events import Event
from servesmith.units import Seconds


class Watcher(Protocol):
    """Told of everything that a person may want to see. Never steers, and must not raise."""

    def stage(self, name: str, remaining_trials: int) -> None:
        """A stage begins (`noise`, `screen`, `confirm`, ...); how many trials it plans. It may take more or fewer."""
        ...

    def trial_started(self, key: str) -> None:
        """The trial of this key is starting its server."""
        ...

    def progress(self, key: str, elapsed: Seconds, total: Seconds, tokens: int) -> None:
        """The load of a trial runs: seconds gone, seconds in all, output tokens so far."""
        ...

    def event(self, event: Event) -> None:
        """This event has just been written to the journal."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class Silent:
    """A watcher that shows nothing: for `--json`, for libraries and for tests."""

    def stage(self, name: str, remaining_trials: int) -> None:
        """Nothing to show."""

    def trial_started(self, key: str) -> None:
        """Nothing to show."""

    def progress(self, key: str, elapsed: Seconds, total: Seconds, tokens: int) -> None:
        """Nothing to show."""

    def event(self, event: Event) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing to show."""
