"""Words of a command line to the flag mapping of a recipe, without knowing any engine's flags.

What follows a flag up to the next flag is its value: none makes it bare (true), one a scalar, several a list;
a flag that comes twice becomes a list of lists. A number stays a number only if it prints back the same.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import FlagValue, Scalar

COMMAND = "command line"
"""Stands for the file name in problems with a command."""

_FLAG = re.compile(r"(--[A-Za-z][^\s=]*|-[A-Za-z][^\s=]*)(?:(=)(.*))?", re.DOTALL)

Occurrence = tuple[str, list[str]]
"""A flag as it stands in a recipe (`max-num-seqs`, `-np`) and the words that follow it."""


def command_problem(message: str, remedy: str, field: str) -> Problem:
    """A problem with a word of a command."""
    return Problem(message, remedy, COMMAND, 1, field)


def is_flag(word: str) -> bool:
    """True if a parser would take the word for a flag and not for a value: `-1` and `- a` are values."""
    return _FLAG.fullmatch(word) is not None


def flag_name(word: str) -> str:
    """`--max-num-seqs` as `max-num-seqs`; a short flag keeps its dash."""
    return word.removeprefix("--")


def parse_flags(words: Sequence[str]) -> dict[str, FlagValue]:
    """The flag mapping of the words. Raises InputError if one belongs to no flag."""
    occurrences: list[Occurrence] = []
    open_flag = False
    for word in words:
        found = _FLAG.fullmatch(word)
        if found is not None:
            occurrences.append((flag_name(found.group(1)), [found.group(3)] if found.group(2) else []))
            open_flag = not found.group(2)
        elif open_flag:
            occurrences[-1][1].append(word)
        else:
            stray_word(word)
    return grouped(occurrences)


def stray_word(word: str) -> NoReturn:
    """Refuse a word that belongs to no flag."""
    message = f"The word {word!r} belongs to no flag."
    raise InputError(command_problem(message, "Put it after its flag, or in quotes if it is part of a value.", word))


def grouped(occurrences: Sequence[Occurrence]) -> dict[str, FlagValue]:
    """Occurrences in order as a mapping; those of one flag are put together where the first one stands."""
    values: dict[str, list[list[str]]] = {}
    for name, words in occurrences:
        values.setdefault(name, []).append(words)
    return {name: _value(several) for name, several in values.items()}


def _value(several: list[list[str]]) -> FlagValue:
    if len(several) > 1:
        return [[scalar_of(word) for word in words] for words in several]
    words = several[0]
    if not words:
        return True
    if len(words) > 1:
        return [scalar_of(word) for word in words]
    mapping = json_object(words[0])
    return scalar_of(words[0]) if mapping is None else mapping


def scalar_of(text: str) -> Scalar:
    """The text as int or float if that prints back the same, else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if text_of(value) == text and math.isfinite(value):
            return value
    return text


def text_of(value: Scalar) -> str:
    """A scalar as a word of a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def json_text(value: Mapping[str, Any]) -> str:
    """A JSON value as a word of a command line: compact."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text spells in compact or default form; None if it would not print back the same."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    same = text in (json_text(value), json.dumps(value, ensure_ascii=False))
    return value if same else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
