"""The raw stamps of one start of a server, and the times that follow from them."""

from pathlib import Path
from typing import Literal

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.metrics import MetricKind
from servesmith.measure.records import Metric
from servesmith.units import NANOS_PER_SECOND, Nanos

STARTUP = "start.json"

STARTUP_METRICS: dict[str, MetricKind] = {
    "time_to_health_s": MetricKind("s", "lower", "first answer 200 of the health endpoint - exec"),
    "time_to_first_token_s": MetricKind("s", "lower", "first token that was served - exec"),
}


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    """When a server came up, on one monotonic clock. Health is asked for every 20 ms, which is its resolution."""

    exec_ns: Nanos
    health_ns: Nanos
    first_token_ns: Nanos
    caches: Literal["cold", "warm", ""] = ""
    """What was done with the engine's cache folders before; empty: nothing."""


def write_startup(folder: Path, startup: Startup) -> None:
    """Write start.json."""
    (folder / STARTUP).write_bytes(msgspec.json.format(msgspec.json.encode(startup), indent=1))


def read_startup(folder: Path) -> Startup:
    """Raises EvidenceError if the file cannot be read."""
    try:
        return msgspec.json.decode((folder / STARTUP).read_bytes(), type=Startup)
    except (OSError, msgspec.MsgspecError) as error:
        raise EvidenceError(STARTUP, f"cannot be read: {error}.") from error


def startup_numbers(startup: Startup) -> dict[str, Metric]:
    """Both times. Pure."""
    stamps = {"time_to_health_s": startup.health_ns, "time_to_first_token_s": startup.first_token_ns}
    return {
        key: Metric((stamp - startup.exec_ns) / NANOS_PER_SECOND, "s", STARTUP_METRICS[key].better)
        for key, stamp in stamps.items()
    }
