"""A recipe from the container of a Kubernetes manifest."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import Field

from servesmith.errors import InputError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.argv import Occurrence
from servesmith.recipe.foreign import Loose, assembled, fitted, single
from servesmith.recipe.importers import Imported, Parts
from servesmith.recipe.paths import Path
from servesmith.recipe.secrets import is_secret_name
from servesmith.units import Json


class _EnvValue(Loose):
    name: str
    value: str | None = None
    valueFrom: dict[str, Any] | None = None


class _VolumeMount(Loose):
    name: str
    mountPath: str
    readOnly: bool = False


class _ContainerPort(Loose):
    containerPort: int


class _Limits(Loose):
    limits: dict[str, str] = Field(default_factory=dict[str, str])
    requests: dict[str, str] = Field(default_factory=dict[str, str])


class _Security(Loose):
    privileged: bool = False


class _PodContainer(Loose):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[_EnvValue, ...] = ()
    envFrom: tuple[dict[str, Any], ...] = ()
    ports: tuple[_ContainerPort, ...] = ()
    volumeMounts: tuple[_VolumeMount, ...] = ()
    resources: _Limits = Field(default_factory=_Limits)
    securityContext: _Security = Field(default_factory=_Security)


class _HostPath(Loose):
    path: str


class _EmptyDir(Loose):
    medium: str = ""
    sizeLimit: str = ""


class _PodVolume(Loose):
    name: str
    hostPath: _HostPath | None = None
    emptyDir: _EmptyDir | None = None


class _PodSpec(Loose):
    containers: list[_PodContainer]
    volumes: tuple[_PodVolume, ...] = ()
    hostIPC: bool = False
    hostNetwork: bool = False


_POD_PATHS: Mapping[str, Path] = {
    "Pod": ("spec",),
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"), ("spec", "template", "spec")),
}


def from_kubernetes(text: str, file: str = "manifest.yaml", name: str = "") -> Imported:
    """The recipe of the only container in a manifest that starts an engine. Raises InputError."""
    candidates: dict[str, Callable[[], Imported]] = {}
    for document in yamltext.parse_all(text, file):
        path, data = _pod(document.data)
        if not path:
            continue
        pod = fitted(_PodSpec, data, document, path)
        for container in pod.containers:
            key = container.name or str(len(candidates))
            candidates[key] = lambda pod=pod, container=container: _pod_container(pod, container, name)
    if not candidates:
        kinds = ", ".join(_POD_PATHS)
        raise InputError(Problem("Starts no container.", f"Give a manifest of kind {kinds}.", file, 1, "kind"))
    return single(candidates, file, "container")


def _pod(data: Json) -> tuple[Path, Json]:
    """Where the pod's specification stands in a document, and itself; no path if the document starts nothing."""
    path = _POD_PATHS.get(str(data.get("kind")), ()) if isinstance(data, dict) else ()
    for segment in path:
        data = data.get(str(segment)) if isinstance(data, dict) else None
    return path, data


def _pod_container(pod: _PodSpec, container: _PodContainer, name: str) -> Imported:
    parts = Parts(image=container.image)
    passed: list[Occurrence] = []
    for variable in container.env:
        if variable.value is not None or variable.valueFrom is None:
            parts.env[variable.name] = variable.value or ""
        else:
            source = ", ".join(variable.valueFrom)
            passed.append(("-e", [variable.name]))
            parts.notes.append(
                f"{variable.name} comes from {source}: set it in the environment that starts servesmith."
            )
    if container.envFrom:
        parts.notes.append("envFrom is left out: write its variables into `env`.")
    parts.words = [_expanded(word, parts) for word in container.args]
    entrypoint = [_expanded(word, parts) for word in container.command]
    options = [*_pod_options(pod, container), *_pod_volumes(pod, container, parts.notes), *passed]
    return assembled(parts, entrypoint, options, name)


def _expanded(word: str, parts: Parts) -> str:
    """`$(NAME)` as its value where the manifest says it, as Kubernetes does; secrets stay names."""

    def value(found: re.Match[str]) -> str:
        variable = found.group(1)
        known = variable in parts.env and not is_secret_name(variable)
        if not known and not is_secret_name(variable):
            parts.notes.append(f"The value of $({variable}) is not known here: write it into the recipe.")
        return parts.env[variable] if known else found.group()

    return re.sub(r"\$\(([\w.-]+)\)", value, word)


def _pod_options(pod: _PodSpec, container: _PodContainer) -> Iterator[Occurrence]:
    resources = {**container.resources.requests, **container.resources.limits}
    for resource, count in resources.items():
        if resource.endswith("/gpu"):
            yield "gpus", [count]
    if pod.hostIPC:
        yield "ipc", ["host"]
    if pod.hostNetwork:
        yield "network", ["host"]
    if container.securityContext.privileged:
        yield "privileged", []
    for port in container.ports:
        yield "publish", [f"{port.containerPort}:{port.containerPort}"]


def _pod_volumes(pod: _PodSpec, container: _PodContainer, notes: list[str]) -> Iterator[Occurrence]:
    volumes = {volume.name: volume for volume in pod.volumes}
    for mount in container.volumeMounts:
        volume = volumes.get(mount.name)
        if volume is not None and volume.hostPath is not None:
            yield "volume", [f"{volume.hostPath.path}:{mount.mountPath}{':ro' if mount.readOnly else ''}"]
        elif volume is not None and volume.emptyDir is not None and mount.mountPath == "/dev/shm":
            yield "shm-size", [_docker_size(volume.emptyDir.sizeLimit or "16Gi")]
        else:
            notes.append(f"The volume {mount.name} at {mount.mountPath} is left out: add a `volume` to `container`.")


def _docker_size(quantity: str) -> str:
    """Kubernetes' `16Gi` as docker's `16g` (both are powers of 1024)."""
    return re.sub(r"([KMGT])i$", lambda found: found.group(1).lower(), quantity)
