"""Dotted paths into plain data, and merging along them. Pure; nothing given is changed.

A path is written `flags.max-num-seqs`; a key that holds a dot is quoted: `flags."speculative-config.method"`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from servesmith.units import Json

Path: TypeAlias = tuple[str | int, ...]

_SEGMENT = re.compile(r'"([^"]+)"|\'([^\']+)\'|([^."\']+)')


def split_dotted(text: str) -> tuple[str, ...]:
    """Segments of a dotted path. Raises ValueError if one is empty or a quote is not closed."""
    segments: list[str] = []
    at = 0
    while True:
        found = _SEGMENT.match(text, at)
        if found is None:
            raise ValueError(text)
        segments.append(next(group for group in found.groups() if group is not None))
        at = found.end()
        if at == len(text):
            return tuple(segments)
        if text[at] != ".":
            raise ValueError(text)
        at += 1


def join_dotted(path: Path) -> str:
    """The inverse of `split_dotted`."""
    return ".".join(_quoted(str(segment)) for segment in path)


def _quoted(segment: str) -> str:
    if segment and not set(segment) & set(".\"'"):
        return segment
    mark = "'" if '"' in segment else '"'
    return f"{mark}{segment}{mark}"


def resolve(data: Mapping[str, Json], path: Sequence[str]) -> tuple[str, ...]:
    """The path with its tail joined again where the data already has a key that holds dots.

    `flags.speculative-config.method` means the flag `speculative-config.method` if the recipe has it.
    """
    here: Mapping[str, Json] = data
    for index, segment in enumerate(path):
        tail = ".".join(path[index:])
        if tail in here:
            return (*path[:index], tail)
        inner = here.get(segment)
        if not isinstance(inner, dict):
            break
        here = inner
    return tuple(path)


def as_mapping(value: Json) -> dict[str, Json] | None:
    """The value as a mapping: itself, or the JSON object that a text spells; None if it is neither."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    return cast(dict[str, Json], parsed) if isinstance(parsed, dict) else None


def nested(path: Sequence[str], value: Json) -> dict[str, Json]:
    """`("a", "b"), 1` as `{"a": {"b": 1}}`."""
    for segment in reversed(path):
        value = {segment: value}
    return cast(dict[str, Json], value)


def _keep(path: Path) -> bool:
    return False


def merge(
    base: Mapping[str, Json],
    over: Mapping[str, Json],
    path: Path = (),
    keep_null: Callable[[Path], bool] = _keep,
) -> dict[str, Json]:
    """`over` merged into `base`: mappings (and JSON texts under them) deeply, null removes, all else replaces.

    A null that finds nothing to remove is dropped, unless `keep_null(path)` says that it is a value there.
    """
    merged = dict(base)
    for key, value in over.items():
        here = (*path, key)
        if value is None and (key in merged or not keep_null(here)):
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(as_mapping(merged.get(key)) or {}, value, here, keep_null)
        else:
            merged[key] = value
    return merged


def set_path(data: Mapping[str, Json], dotted: str, value: Json) -> dict[str, Json]:
    """A copy of the data with one value set; null removes, a mapping is merged. ValueError on a bad path."""
    return merge(data, nested(resolve(data, split_dotted(dotted)), value))
