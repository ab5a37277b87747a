"""A recipe from a service of a compose file."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from servesmith.errors import InputError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.argv import Occurrence
from servesmith.recipe.foreign import Loose, assembled, fitted, single
from servesmith.recipe.importers import Imported, Parts
from servesmith.recipe.paths import Path
from servesmith.recipe.secrets import is_secret_name
from servesmith.recipe.shell import split_shell
from servesmith.recipe.yamltext import Document
from servesmith.units import Json


class _ComposeDevices(Loose):
    count: int | str | None = None
    device_ids: list[str] | None = None


class _Reservations(Loose):
    devices: tuple[_ComposeDevices, ...] = ()


class _Resources(Loose):
    reservations: _Reservations = Field(default_factory=_Reservations)


class _Deploy(Loose):
    resources: _Resources = Field(default_factory=_Resources)


class _Mount(Loose):
    source: str = ""
    target: str
    read_only: bool = False


class _PublishedPort(Loose):
    target: int
    published: int | str = ""


class _Limit(Loose):
    soft: int
    hard: int


class _Service(Loose):
    image: str = ""
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    environment: dict[str, str | None] | list[str] | None = None
    env_file: str | list[str] | None = None
    ports: tuple[str | _PublishedPort, ...] = ()
    volumes: tuple[str | _Mount, ...] = ()
    shm_size: str | None = None
    ipc: str | None = None
    network_mode: str | None = None
    runtime: str | None = None
    privileged: bool = False
    gpus: str | None = None
    ulimits: dict[str, int | _Limit] = Field(default_factory=dict[str, int | _Limit])
    devices: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    group_add: tuple[str, ...] = ()
    deploy: _Deploy = Field(default_factory=_Deploy)

    def options(self) -> Iterator[Occurrence]:
        """As options of `docker run`."""
        for device in self.deploy.resources.reservations.devices:
            ids = ",".join(device.device_ids or ())
            yield "gpus", [f'"device={ids}"' if ids else str(device.count or "all")]
        singles = {"gpus": self.gpus, "runtime": self.runtime, "ipc": self.ipc, "shm-size": self.shm_size}
        for name, value in {**singles, "network": self.network_mode}.items():
            yield from [(name, [value])] if value else []
        if self.privileged:
            yield "privileged", []
        for name, limit in self.ulimits.items():
            yield "ulimit", [f"{name}={limit}" if isinstance(limit, int) else f"{name}={limit.soft}:{limit.hard}"]
        yield from self._lists()

    def _lists(self) -> Iterator[Occurrence]:
        files = [self.env_file] if isinstance(self.env_file, str) else self.env_file or []
        lists = {"env-file": files, "device": self.devices, "cap-add": self.cap_add}
        for name, values in {**lists, "security-opt": self.security_opt, "group-add": self.group_add}.items():
            yield from ((name, [value]) for value in values)
        for volume in self.volumes:
            whole = isinstance(volume, str)
            suffix = "" if whole or not volume.read_only else ":ro"
            yield "volume", [volume if whole else f"{volume.source}:{volume.target}{suffix}"]
        for port in self.ports:
            yield "publish", [port if isinstance(port, str) else f"{port.published}:{port.target}".lstrip(":")]


def from_compose(text: str, file: str = "compose.yaml", service: str = "", name: str = "") -> Imported:
    """The recipe of a service of a compose file: the named one, or the only one that starts an engine."""
    document = yamltext.parse(text, file)
    services = document.data.get("services") if isinstance(document.data, dict) else None
    if not isinstance(services, dict) or (service and service not in services):
        known = ", ".join(map(str, services)) if isinstance(services, dict) else ""
        remedy = f"Name one of its services by --service: {known}." if known else "Give a file with `services:`."
        line = document.mark(("services",)).line or 1
        raise InputError(Problem(f"Has no service {service!r}.", remedy, file, line, "services"))
    chosen = [service] if service else list(services)
    return single({key: lambda key=key: _service(document, key, name) for key in chosen}, file, "service")


def _service(document: Document, key: str, name: str) -> Imported:
    assert isinstance(document.data, dict)
    path: Path = ("services", key)
    notes: list[str] = []
    services: Any = document.data["services"]
    data = _interpolated(_as_written(services[key], document, path), notes)
    found = fitted(_Service, data, document, path)
    variables = found.environment or {}
    listed = variables.items() if isinstance(variables, dict) else (_assignment(item) for item in variables)
    parts = Parts(_words(found.command), image=found.image, notes=notes)
    options = list(found.options())
    for variable, value in listed:
        if value is None:
            options.append(("-e", [variable]))
        else:
            parts.env[variable] = value
    return assembled(parts, _words(found.entrypoint), options, name)


def _assignment(item: str) -> tuple[str, str | None]:
    variable, equals, value = item.partition("=")
    return variable, value if equals else None


def _words(command: str | list[str] | None) -> list[str]:
    return split_shell(command) if isinstance(command, str) else list(command or ())


def _as_written(value: Json, document: Document, path: Path) -> Json:
    """The value with numbers and switches of `environment`, `command` and `entrypoint` as they are spelled."""
    if isinstance(value, dict):
        return {key: _as_written(item, document, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item, document, (*path, index)) for index, item in enumerate(value)]
    spelled = len(path) > 3 and path[2] in ("environment", "command", "entrypoint")
    return document.mark(path).text if spelled and isinstance(value, (bool, int, float)) else value


_INTERPOLATION = re.compile(r"\$\$|\$\{(\w+)(?::?([-?+])([^}]*))?\}|\$(\w+)")


def _interpolated(value: Json, notes: list[str]) -> Json:
    """`${NAME:-default}` as its default and `$$` as a dollar; other variables stay, with a note."""
    if isinstance(value, dict):
        return {key: _interpolated(item, notes) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolated(item, notes) for item in value]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        variable, default = found.group(1) or found.group(4), found.group(3)
        if variable is None:
            return "$"
        if found.group(2) == "-":
            notes.append(f"${{{variable}}} is taken as its default, {default!r}.")
            return default
        if not is_secret_name(variable):
            notes.append(f"The value of ${{{variable}}} is not known here: write it into the recipe.")
        return found.group()

    return _INTERPOLATION.sub(replaced, value)
