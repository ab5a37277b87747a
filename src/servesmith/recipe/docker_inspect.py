"""A recipe from the JSON of `docker inspect CONTAINER`."""

import json
from collections.abc import Iterator

from pydantic import Field

from servesmith.errors import InputError, Problem
from servesmith.recipe.argv import Occurrence
from servesmith.recipe.foreign import Loose, assembled, fitted
from servesmith.recipe.importers import Imported, Parts
from servesmith.recipe.yamltext import Document, Mark
from servesmith.units import Json

DEFAULT_SHM_BYTES = 64 * 2**20
"""What docker gives a container that does not ask."""


class _DeviceRequest(Loose):
    Count: int = 0
    DeviceIDs: list[str] | None = None


class _Device(Loose):
    PathOnHost: str
    PathInContainer: str


class _Ulimit(Loose):
    Name: str
    Soft: int
    Hard: int


class _Port(Loose):
    HostIp: str = ""
    HostPort: str = ""


class _HostConfig(Loose):
    Binds: list[str] | None = None
    ShmSize: int = 0
    IpcMode: str = ""
    NetworkMode: str = ""
    Privileged: bool = False
    DeviceRequests: list[_DeviceRequest] | None = None
    Devices: list[_Device] | None = None
    Ulimits: list[_Ulimit] | None = None
    PortBindings: dict[str, list[_Port] | None] | None = None
    CapAdd: list[str] | None = None
    SecurityOpt: list[str] | None = None
    GroupAdd: list[str] | None = None
    Runtime: str = ""

    def options(self) -> Iterator[Occurrence]:
        """As options of `docker run`."""
        for request in self.DeviceRequests or ():
            ids = ",".join(request.DeviceIDs or ())
            yield "gpus", [f'"device={ids}"' if ids else "all" if request.Count < 0 else str(request.Count)]
        if self.Runtime not in ("", "runc"):
            yield "runtime", [self.Runtime]
        if self.Privileged:
            yield "privileged", []
        if self.IpcMode not in ("", "private", "shareable"):
            yield "ipc", [self.IpcMode]
        if self.NetworkMode not in ("", "default", "bridge"):
            yield "network", [self.NetworkMode]
        if self.ShmSize not in (0, DEFAULT_SHM_BYTES):
            yield "shm-size", [str(self.ShmSize)]
        for limit in self.Ulimits or ():
            yield "ulimit", [f"{limit.Name}={limit.Soft}:{limit.Hard}"]
        yield from self._lists()

    def _lists(self) -> Iterator[Occurrence]:
        lists = {"volume": self.Binds, "cap-add": self.CapAdd, "security-opt": self.SecurityOpt}
        for name, values in {**lists, "group-add": self.GroupAdd}.items():
            yield from ((name, [value]) for value in values or ())
        for device in self.Devices or ():
            yield "device", [f"{device.PathOnHost}:{device.PathInContainer}"]
        for target, bindings in (self.PortBindings or {}).items():
            for port in bindings or ():
                host = f"{port.HostIp}:" if port.HostIp else ""
                yield "publish", [f"{host}{port.HostPort}:{target.removesuffix('/tcp')}"]


class _Config(Loose):
    Image: str
    Env: list[str] | None = None
    Cmd: list[str] | None = None
    Entrypoint: list[str] | None = None


class _Container(Loose):
    Config: _Config
    HostConfig: _HostConfig = Field(default_factory=_HostConfig)


_IMAGE_ENV = frozenset({"PATH", "HOSTNAME", "HOME", "TERM", "LD_LIBRARY_PATH"})


def from_docker_inspect(text: str, file: str = "docker inspect", name: str = "") -> Imported:
    """The recipe of a container, from the JSON of `docker inspect CONTAINER`. Raises InputError."""
    try:
        data: Json = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InputError(
            Problem(f"Is not valid JSON: {error}.", "Save `docker inspect NAME`.", file, line, "(syntax)")
        ) from None
    document = Document(data, {(): Mark(file, 1)})
    items = data if isinstance(data, list) else [data]
    if len(items) != 1:
        raise InputError(Problem(f"Has {len(items)} containers.", "Inspect one container.", file, 1, "(file)"))
    container = fitted(_Container, items[0], document)
    config = container.Config
    variables = (item.partition("=")[::2] for item in config.Env or ())
    parts = Parts(
        words=list(config.Cmd or ()),
        env={variable: value for variable, value in variables if variable not in _IMAGE_ENV},
        image=config.Image,
        notes=["`env` holds the image's own variables too; those can be deleted."],
    )
    return assembled(parts, config.Entrypoint, list(container.HostConfig.options()), name)
