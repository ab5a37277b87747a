"""A recipe's server, started and ended around a `with` block; or someone else's server, left as it is."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from servesmith.engine.base import Adapter, Command
from servesmith.engine.launch import StartLimits, find_free_port, serve
from servesmith.measure.startup import Startup
from servesmith.recipe.command import shell_line
from servesmith.recipe.model import Recipe
from servesmith.recipe.secrets import mask
from servesmith.units import NANOS_PER_SECOND, Seconds


class Running(msgspec.Struct, frozen=True):
    """A server that answers. `pid` 0: it is not ours."""

    url: str
    pid: int
    ready_seconds: Seconds
    startup: Startup | None
    """Stamps of its start; None: it is not ours."""
    poll: Callable[[], int | None]
    """Exit code of the server's first process; None while it runs."""


@contextmanager
def opened(
    engine: Adapter, recipe: Recipe, folder: Path, headers: dict[str, str], limits: StartLimits
) -> Generator[Running]:
    """Start it on a free port with its log in folder/engine.log; a recipe with a URL is only attached to.

    Writes the exact command before the start. Raises MachineError before it, StartFailed if no token comes.
    """
    if recipe.url:
        (folder / "engine.log").write_text("The server is run by someone else; its log is not ours.\n")
        yield Running(recipe.url, 0, 0.0, None, lambda: None)
        return
    port = find_free_port()
    command = engine.command(recipe, port)
    write_command(folder, command)
    with serve(
        command,
        port=port,
        log_path=folder / "engine.log",
        limits=limits,
        classify=engine.failure,
        headers=headers,
    ) as server:
        token = server.started + round(server.ready_seconds * NANOS_PER_SECOND)
        startup = Startup(exec_ns=server.started, health_ns=server.healthy, first_token_ns=token)
        yield Running(server.url, server.pid, server.ready_seconds, startup, server.poll)


def write_command(folder: Path, command: Command) -> None:
    """The exact command as one line of shell, secrets masked."""
    (folder / "command.txt").write_text(shell_line(command.argv, mask(command.env)) + "\n")
