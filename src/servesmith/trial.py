"""THE MAIN FLOW: one recipe, once. Start it, look at it, let an errand use it, end it, keep everything.

Whatever happens once the server is up, a `TrialResult` comes out: a failed trial is data. Only what keeps it from being
started (a missing package, a taken port), a server of someone else that cannot be used, and Ctrl-C raise.
"""

import os
import re
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import msgspec
from pydantic import BaseModel

from servesmith.desk import Desk, Errand, Outcome
from servesmith.engine.base import Adapter, Facts, Failure
from servesmith.engine.launch import StartFailed, StartLimits
from servesmith.engine.opened import Running, opened
from servesmith.engine.registry import adapter
from servesmith.errors import InputError, MachineError
from servesmith.load.probe import properties
from servesmith.recipe.files import dump_recipe
from servesmith.recipe.model import Recipe
from servesmith.store.events import TrialResult
from servesmith.store.hashing import folder_digests
from servesmith.store.watch import Watcher
from servesmith.units import Seconds

FACTS = "facts.json"


class Order(msgspec.Struct, frozen=True):
    """One trial as asked for. `key` is unique in a run."""

    key: str
    recipe: Recipe
    errand: Errand
    seed: int


class Site(msgspec.Struct, frozen=True):
    """Where trials take place: the run's folder, who looks on, and how long a start may take."""

    run_folder: Path
    watch: Watcher
    limits: StartLimits = StartLimits()


def run_trial(order: Order, site: Site) -> TrialResult:
    """One start of one recipe, and what came of it."""
    began, clock = datetime.now(UTC).astimezone().isoformat(timespec="seconds"), time.monotonic()
    folder = fresh_folder(site.run_folder, order)
    engine, key = adapter(order.recipe.engine), bearer_key(order.recipe)
    ready_seconds = 0.0
    try:
        with opened(engine, order.recipe, folder, _headers(key), site.limits) as server:
            ready_seconds = server.ready_seconds
            outcome = _used(order, site, engine, server, folder)
    except StartFailed as failed:
        outcome = Outcome("censored" if failed.failure.kind == "timeout" else "failed", failed.failure)
    write_outcome(folder, order, outcome)
    return TrialResult(
        key=order.key,
        folder=str(folder.relative_to(site.run_folder)),
        recipe_hash=order.recipe.digest(),
        ending=outcome.ending,
        seed=order.seed,
        began=began,
        seconds=round(time.monotonic() - clock, 3),
        ready_seconds=round(ready_seconds, 3),
        failure=outcome.failure.kind,
        log_line=outcome.failure.log_line,
        metrics=outcome.metrics,
        files=folder_digests(folder),
    )


def fresh_folder(run_folder: Path, order: Order) -> Path:
    """An empty folder with the recipe in it. What an interrupted attempt left is removed: it was never recorded."""
    folder = run_folder / "trials" / folder_name(order.key)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(dump_recipe(order.recipe))
    return folder


def folder_name(key: str) -> str:
    """One name for one key, no two alike: `/` is `--`; what a name should not hold, and a dash that could be taken for
    part of a separator, is percent-quoted."""
    return "--".join(_quoted(part) for part in key.split("/"))


def _quoted(part: str) -> str:
    safe = quote(part, safe="=,")  # leaves letters, digits and _.-~ as they are
    return re.sub(r"^\.|~|^-|(?<=-)-|-(?=-|$)", lambda found: f"%{ord(found[0]):02X}", safe)


def read_facts(folder: Path) -> Facts:
    """The facts of a finished trial."""
    return msgspec.json.decode((folder / FACTS).read_bytes(), type=Facts)


def bearer_key(recipe: Recipe) -> str:
    """The key from the environment, under the name that the recipe gives; empty if it names none."""
    return os.environ.get(recipe.key_env, "") if recipe.key_env else ""


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _desk(order: Order, site: Site, server: Running, folder: Path) -> Desk:
    return Desk(
        url=server.url,
        pid=server.pid,
        key=bearer_key(order.recipe),
        folder=folder,
        trial=order.key,
        seed=order.seed,
        watch=site.watch,
        startup=server.startup,
    )


def write_facts(folder: Path, facts: Facts) -> None:
    """Keep what the engine said of itself."""
    _write_json(folder / FACTS, facts)


def _look(engine: Adapter, server: Running, folder: Path, key: str) -> None:
    write_facts(folder, engine.facts(_log_lines(folder), properties(server.url, engine.property_paths(), key=key)))


def _used(order: Order, site: Site, engine: Adapter, server: Running, folder: Path) -> Outcome:
    """What the errand brings back. An error at a server of ours that was up is the trial's, not the machine's."""
    try:
        _look(engine, server, folder, bearer_key(order.recipe))
        outcome = order.errand.run(_desk(order, site, server, folder))
    except (InputError, MachineError) as error:
        if not server.pid:
            raise
        _wait_for_exit(server)
        outcome = Outcome("failed", Failure("requests-failed", str(error)))
    return _unless_it_died(outcome, engine, server, folder)


def _wait_for_exit(server: Running, limit: Seconds = 1.0) -> None:
    """A request that failed is often the first sign of a death; give it time to be seen."""
    deadline = time.monotonic() + limit
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def _unless_it_died(outcome: Outcome, engine: Adapter, server: Running, folder: Path) -> Outcome:
    """A server that ended by itself under load is a failed trial, whatever the errand thought of it."""
    exit_code = server.poll()
    if exit_code is None:
        return outcome
    return Outcome("failed", engine.failure(_log_lines(folder), exit_code), outcome.metrics)


def _log_lines(folder: Path) -> list[str]:
    return (folder / "engine.log").read_text(errors="replace").splitlines()


def write_outcome(folder: Path, order: Order, outcome: Outcome) -> None:
    """Keep what was asked and what came of it."""
    _write_json(
        folder / "outcome.json", {"key": order.key, "seed": order.seed, "errand": order.errand, "outcome": outcome}
    )


def _write_json(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=1))


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError(type(value))
