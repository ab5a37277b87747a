"""Workloads by name: `workload: {preset: chat-5to1}` in a recipe file, or `--set workload.preset=chat-5to1`.

A preset is data: a file below `presets/` with the sections workload and load, as they stand in a recipe file. It takes
the place of the whole workload that was there before (of a base, say) and of those fields of the load that it has; what
stands beside its name is laid over it.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from servesmith.errors import InputError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.paths import nested
from servesmith.recipe.problems import nearest
from servesmith.recipe.yamltext import Document
from servesmith.units import Json

PLACE = ("workload", "preset")


@cache
def preset_names() -> tuple[str, ...]:
    """All presets there are."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def named_preset(document: Document) -> Document | None:
    """The preset that a document names; None if it names none. Raises InputError if there is none of that name."""
    workload = _section(document.data, "workload")
    if "preset" not in workload:
        return None
    name, mark = workload["preset"], document.mark(PLACE)
    if name not in preset_names():
        message = f"There is no preset {name!r}."
        raise InputError(Problem(message, nearest(str(name), preset_names()), mark.file, mark.line, ".".join(PLACE)))
    path = _folder() / f"{name}.yaml"
    return yamltext.parse(path.read_text(encoding="utf-8"), str(path))


def preset_layers(preset: Document, document: Document) -> tuple[Document, ...]:
    """The preset, and over it what else the document says."""
    assert isinstance(document.data, dict)
    if document.data == nested(PLACE, _section(document.data, "workload")["preset"]):
        return (preset,)
    workload = {key: value for key, value in _section(document.data, "workload").items() if key != "preset"}
    return preset, Document({**document.data, "workload": workload}, document.marks)


def _section(data: Json, name: str) -> Mapping[str, Json]:
    section = data.get(name) if isinstance(data, dict) else None
    return section if isinstance(section, dict) else {}


def _folder() -> Path:
    return Path(str(resources.files("servesmith.recipe"))) / "presets"
