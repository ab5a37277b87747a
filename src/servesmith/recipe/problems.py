"""What pydantic found wrong, in words for a person: place, what is needed, and the remedy."""

import types
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from servesmith.errors import Problem
from servesmith.recipe.paths import Path, join_dotted
from servesmith.recipe.yamltext import Mark, nearest_mark
from servesmith.units import Json

_NEEDS: Mapping[str, tuple[str, str]] = {
    "string_type": ("text", 'Put it in quotes: "{text}".'),
    "int_type": ("a whole number", "Write a whole number in digits without quotes, such as 8."),
    "float_type": ("a number", "Write a number without quotes, such as 2.5."),
    "finite_number": ("a finite number", "Write a number, such as 2.5."),
    "bool_type": ("true or false", "Write true or false, without quotes."),
    "tuple_type": ("a list", "Write [first, second], or one `- item` on each line."),
    "list_type": ("a list", "Write [first, second], or one `- item` on each line."),
    "dict_type": ("a mapping", "Write `name: value` lines, indented below it."),
    "model_type": ("a mapping", "Write `name: value` lines, indented below it."),
    "literal_error": ("another value", "Use one of: {expected}."),
    "greater_than": ("a number above {gt}", "Raise it above {gt}."),
    "greater_than_equal": ("a number of at least {ge}", "Use {ge} or more."),
    "less_than": ("a number below {lt}", "Use a number below {lt}."),
    "less_than_equal": ("a number of at most {le}", "Use {le} or less."),
    "string_too_long": ("text of at most {max_length} characters", "Shorten it."),
    "string_too_short": ("text that is not empty", "Write at least one character."),
    "string_pattern_mismatch": (
        "letters, digits, `.`, `_` or `-`, the first a letter or digit",
        "Leave out spaces, slashes and other characters.",
    ),
}
_FLAG_VALUE = (
    "true, a number, text, a list of these, or a mapping",
    "Write true for a bare flag, a list for several values, a list of lists for a repeated flag, a mapping for JSON.",
)

ValidNames = Callable[[Path], Sequence[str]]
"""The field names that are allowed below a path."""


def nearest(name: str, names: Sequence[str]) -> str:
    """`Did you mean x?`, or the list of what there is."""
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean `{close[0]}`?" if close else f"Known: {', '.join(sorted(names))}."


def problems_of(
    error: ValidationError, data: Json, marks: Mapping[Path, Mark], valid: ValidNames, shown: Callable[[Path], Path]
) -> list[Problem]:
    """One Problem for every place that pydantic complains about.

    `data` is what was validated, `marks` knows the lines by the same paths, `valid` the names allowed at a path,
    `shown` turns a path of the data into the path that the user wrote.
    """
    places: dict[Path, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        places.setdefault(_place(details, data), []).append(details)
    return [
        _problem(path, found, nearest_mark(marks, shown(path)), valid, join_dotted(shown(path)))
        for path, found in places.items()
    ]


def _place(details: ErrorDetails, data: Json) -> Path:
    """The error's location without the names of union members, which pydantic appends."""
    path: Path = ()
    here = data
    if details["type"] == "refused":
        return (*details["loc"], *filter(None, details["ctx"]["field"].split(".")))  # type: ignore[typeddict-item]
    for segment in details["loc"]:
        try:
            here = here[segment]  # type: ignore[index, call-overload]
        except (KeyError, IndexError, TypeError):
            return (*path, segment) if details["type"] == "missing" else path
        path = (*path, segment)
    return path


def _problem(path: Path, found: Sequence[ErrorDetails], mark: Mark, valid: ValidNames, field: str) -> Problem:
    first = found[0]
    context = first.get("ctx", {})
    name = str(path[-1]) if path else ""
    if first["type"] == "extra_forbidden":
        message, remedy = "No such field.", nearest(name, valid(path[:-1]))
    elif first["type"] == "missing":
        message, remedy = "Is missing.", f"Add a line `{name}: ...`."
    elif first["type"] == "refused":  # model.refusal
        message, remedy = context["message"], context["remedy"]
    else:
        needs, remedy = _FLAG_VALUE if len(found) > 1 else _needs(first, mark)
        message = f"Needs {needs}, not {_told(first['input'])}."
    return Problem(message, remedy, mark.file, mark.line, field or "(file)")


def _needs(details: ErrorDetails, mark: Mark) -> tuple[str, str]:
    needs, remedy = _NEEDS.get(details["type"], (details["msg"], "Correct the value."))
    if details["type"] == "model_attributes_type":
        needs, remedy = _NEEDS["model_type"]
    values = {"text": mark.text or "...", **details.get("ctx", {})}
    return needs.format_map(values), remedy.format_map(values)


def _told(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = ("true" if value else "false") if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def fields_below(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    """Field names of the model that stands at `path` below `model`; empty where a mapping is free-form."""
    here = _type_at(model, path)
    return tuple(cast(type[BaseModel], here).model_fields) if _is_model(here) else ()


def is_single(models: Sequence[type[BaseModel]], path: Path) -> bool:
    """True if one of the models has a field at `path` whose value is a text, a number, or true or false."""
    kinds = [_type_at(model, path) for model in models]
    return any(kind is one for kind in kinds for one in (str, int, float, bool)) or Literal in map(get_origin, kinds)


def _type_at(model: type[BaseModel], path: Path) -> object:
    """The type of the field at `path`, None if there is none; of a union the part that is a model."""
    here: Any = model
    for segment in path:
        if isinstance(segment, int):
            here = next((arg for arg in get_args(here) if arg is not Ellipsis), None)
        else:
            info = here.model_fields.get(segment) if _is_model(here) else None
            here = info.annotation if info is not None else None
        if get_origin(here) in (Union, types.UnionType):
            here = next((arg for arg in get_args(here) if _is_model(arg)), None)
    return here


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
