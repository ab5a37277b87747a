"""JSON of strangers, seen as the shape that we expect; what has another shape is seen as empty."""

from typing import Any, cast


def as_map(body: object) -> dict[str, Any]:
    """The object, or an empty one."""
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def as_list(body: object) -> list[Any]:
    """The array, or an empty one."""
    return cast("list[Any]", body) if isinstance(body, list) else []
