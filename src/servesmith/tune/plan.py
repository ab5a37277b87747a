"""What a new run is to be, before it has a folder."""

import msgspec

from servesmith.recipe.model import Case, Lever
from servesmith.tune.settings import Settings


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a new run is to be: every input, resolved."""

    verb: str
    case: Case
    settings: Settings
    levers: tuple[Lever, ...] = ()
    rival: Case | None = None
    """The other recipe of compare and gate."""
    extra: dict[str, float | int | str | bool] = {}
    """What steers a measurement of its own (knee, start, soak): written into the journal beside the settings."""
    require_quality: bool = False
    """A compare that gates too."""
    file: str = ""
    """Where the case was read from, for messages; the rival's is `rival_file`."""
    rival_file: str = ""
