"""What an engine must say of itself. A new engine is one file that satisfies `Adapter`."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from servesmith.recipe.model import Recipe
from servesmith.store.events import FailureClass


class Command(msgspec.Struct, frozen=True):
    """How to start it: an argument list (never a shell line) and what is added to the environment."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


class Facts(msgspec.Struct, frozen=True):
    """What the engine itself said it did."""

    engine: str
    version: str = ""
    values: dict[str, str] = {}
    """Name of the fact to its value as text, e.g. `slots: 4`, `flash_attention: enabled`."""
    warnings: tuple[str, ...] = ()
    """Log lines that cost speed or mean that something was not honoured."""


class Failure(msgspec.Struct, frozen=True):
    """Why a start or a run failed, and the log line that shows it."""

    kind: FailureClass
    log_line: str


class Adapter(Protocol):
    """Everything that differs between engines."""

    def command(self, recipe: Recipe, port: int) -> Command:
        """The exact command. Raises MachineError if the engine is not here, InputError on refused flags."""
        ...

    def facts(self, log: Iterable[str], properties: dict[str, object]) -> Facts:
        """Facts from log lines and from the engine's own property endpoints (already fetched, as JSON)."""
        ...

    def version(self) -> str:
        """Version of the engine as installed here, for the conditions of levers; empty if that is not known."""
        ...

    def property_paths(self) -> tuple[str, ...]:
        """GET paths whose JSON bodies `facts` wants, e.g. `/props`."""
        ...

    def failure(self, log: Iterable[str], exit_code: int | None) -> Failure:
        """Classify a death. `exit_code` None: it did not exit by itself (time limit or hang)."""
        ...

    def known_flags(self) -> frozenset[str] | None:
        """Flag names that this engine honours, without leading `--`; None: not known."""
        ...
