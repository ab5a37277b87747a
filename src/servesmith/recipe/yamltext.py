"""The one door to ruamel.yaml: text to plain data with a line for every value, and edits that keep comments.

YAML 1.2: `no`, `yes`, `on` and `off` are text. Duplicate keys, tags and endless documents are refused.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ruamel.yaml's nodes are not typed; nothing untyped leaves this file.

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from servesmith.errors import InputError, Problem
from servesmith.recipe.paths import Path, join_dotted
from servesmith.units import Json

_TAG = "tag:yaml.org,2002:"
_MOST_VALUES = 100_000
"""More than any recipe, manifest or lever file has; a nest of aliases can claim millions."""
_DEEPEST = 100
_PLAIN = re.compile(r"(-?[A-Za-z_/]|\./)[A-Za-z0-9_./:@+-]*(?<!:)")
_LOOKS_OTHERWISE = frozenset(
    ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "inf", "nan", ".inf", ".nan"]
)
"""Texts that YAML 1.1 readers, or people, take for something else: always quoted when written."""


@dataclass(frozen=True)
class Mark:
    """Where a value stands. `text` is a scalar as it was written, without quotes."""

    file: str = ""
    line: int = 0
    text: str = ""


@dataclass(frozen=True)
class Document:
    """One YAML document as plain data; `marks` has every path in it."""

    data: Json
    marks: Mapping[Path, Mark]

    def mark(self, path: Path) -> Mark:
        """The mark of the path, or of its nearest ancestor that stands in the text."""
        return nearest_mark(self.marks, path)


def nearest_mark(marks: Mapping[Path, Mark], path: Path) -> Mark:
    """The mark of the path, or of its nearest ancestor that has one."""
    while path and path not in marks:
        path = path[:-1]
    return marks.get(path, Mark())


def parse(text: str, file: str = "") -> Document:
    """The only document of a text. Raises InputError with every problem of form."""
    documents = parse_all(text, file)
    if len(documents) != 1:
        line = documents[1].mark(()).line if documents else 1
        message = "Has more than one document." if documents else "Is empty."
        raise InputError(Problem(message, "Write one mapping, such as `name: my-recipe`.", file, line, "(file)"))
    return documents[0]


def parse_all(text: str, file: str = "") -> tuple[Document, ...]:
    """Every document of a text that is not empty. Raises InputError with every problem of form."""
    yaml = YAML(typ="safe", pure=True)
    reader = _Reader(file, yaml.constructor.construct_object)
    try:
        documents = [reader.document(node) for node in yaml.compose_all(text) if not _is_empty(node)]
    except YAMLError as error:
        raise InputError(_syntax_problem(error, text, file)) from None
    except RecursionError:
        raise InputError(Problem("Is nested too deeply.", "Flatten it.", file, 1, "(file)")) from None
    if reader.problems:
        raise InputError(*reader.problems)
    return tuple(documents)


def parse_value(text: str) -> Json:
    """One YAML value, as in `--set a.b=VALUE`; empty text is null. Raises InputError."""
    documents = parse_all(text)
    return documents[0].data if documents else None


def _is_empty(node: Node | None) -> bool:
    return node is None or (node.tag == f"{_TAG}null" and node.value == "")


def _syntax_problem(error: YAMLError, text: str, file: str) -> Problem:
    remedy = "Correct the text on this line or just above it: indentation by spaces, closed quotes, `key: value`."
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = " ".join(str(part) for part in (error.context, error.problem) if part)
        if "'\\t'" in what or "tab" in what:
            remedy = "Indent with spaces; YAML does not allow tabs."
        return Problem(f"Is not valid YAML: {what}.", remedy, file, line, "(syntax)")
    line = text.count("\n", 0, error.position) + 1 if isinstance(error, ReaderError) else 1
    return Problem(
        "Has a character that YAML does not allow.", "Remove it or write it as \\xNN.", file, line, "(syntax)"
    )


class _Reader:
    """Turns ruamel's nodes into plain data, noting marks and problems on the way."""

    def __init__(self, file: str, construct: Callable[[Node], Json]) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._construct = construct
        self._marks: dict[Path, Mark] = {}
        self._under_way: set[int] = set()
        self._count = 0

    def document(self, root: Node) -> Document:
        """One document; its problems join those of the documents before it."""
        self._marks, self._count = {(): Mark(self._file, root.start_mark.line + 1)}, 0
        return Document(self._value(root, ()), self._marks)

    def _value(self, node: Node, path: Path) -> Json:
        self._count += 1
        if self._count > _MOST_VALUES or id(node) in self._under_way:
            raise InputError(
                self._problem(node, path, "Refers to itself or is too large.", "Write it without aliases.")
            )
        if len(path) > _DEEPEST:
            raise InputError(self._problem(node, path[:2], "Is nested too deeply.", "Flatten it."))
        if not isinstance(node.value, list):
            return self._scalar(node, path)
        self._under_way.add(id(node))
        try:
            if node.tag == f"{_TAG}map":
                return self._mapping(node, path)
            if node.tag == f"{_TAG}seq":
                return self._sequence(node, path)
        finally:
            self._under_way.discard(id(node))
        self.problems.append(self._problem(node, path, f"Has the tag {node.tag}.", "Write it without a tag."))
        return None

    def _sequence(self, node: Node, path: Path) -> Json:
        items: list[Json] = []
        for index, item in enumerate(node.value):
            self._note(item, item, (*path, index))
            items.append(self._value(item, (*path, index)))
        return items

    def _mapping(self, node: Node, path: Path) -> dict[str, Json]:
        data: dict[str, Json] = {}
        first: dict[str, int] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged.extend(value.value if value.tag == f"{_TAG}seq" else [value])
                continue
            name = self._key(key, path)
            here = (*path, name)
            if name in first:
                remedy = f"Keep one of the two lines; the first is line {first[name]}."
                self.problems.append(self._problem(key, here, "Is there twice.", remedy))
                continue
            first[name] = key.start_mark.line + 1
            self._note(key, value, here)
            data[name] = self._value(value, here)
        for other in merged:
            self._take_over(other, data, path)
        return data

    def _take_over(self, node: Node, data: dict[str, Json], path: Path) -> None:
        """`<<: *base`: keys that are not there yet."""
        if node.tag != f"{_TAG}map":
            self.problems.append(self._problem(node, path, "`<<` needs a mapping.", "Name an anchor of a mapping."))
            return
        marks = dict(self._marks)
        inherited = self._value(node, path)
        fresh = {path_: mark for path_, mark in self._marks.items() if path_ not in marks}
        self._marks = {**fresh, **marks}
        if isinstance(inherited, dict):
            data.update({key: value for key, value in inherited.items() if key not in data})

    def _key(self, node: Node, path: Path) -> str:
        if isinstance(node.value, list) or (node.tag == f"{_TAG}null" and not node.value):
            self.problems.append(self._problem(node, path, "Has a key that is not text.", "Write `name: value`."))
            return ""
        return str(node.value)

    def _scalar(self, node: Node, path: Path) -> Json:
        kind = str(node.tag).removeprefix(_TAG)
        if kind in ("str", "timestamp", "merge"):
            return str(node.value)
        if kind not in ("null", "bool", "int", "float"):
            self.problems.append(self._problem(node, path, f"Has the tag {node.tag}.", "Write it without a tag."))
            return None
        try:
            value: Json = self._construct(node)
        except (ValueError, KeyError, ConstructorError):
            self.problems.append(self._problem(node, path, f"{node.value!r} is no {kind}.", "Put it in quotes."))
            return None
        # ruamel's own number types remember their spelling; plain data does not
        return float(value) if isinstance(value, float) else value

    def _note(self, at: Node, value: Node, path: Path) -> None:
        text = "" if isinstance(value.value, list) else str(value.value)
        self._marks[path] = Mark(self._file, at.start_mark.line + 1, text)

    def _problem(self, node: Node, path: Path, message: str, remedy: str) -> Problem:
        return Problem(message, remedy, self._file, node.start_mark.line + 1, join_dotted(path) or "(file)")


@dataclass(frozen=True)
class Layout:
    """How a file is written: comment lines on top, and paths whose texts are always quoted."""

    header: str = ""
    quoted: frozenset[str] = field(default_factory=frozenset[str])


def dump(data: Mapping[str, Json], layout: Layout | None = None) -> str:
    """Block-style YAML that reads back as the same data, here and under YAML 1.1."""
    layout = layout or Layout()
    yaml = _writer(None, None)
    out = io.StringIO()
    yaml.dump({key: _safe(value, quote=key in layout.quoted) for key, value in data.items()}, out)
    return layout.header + out.getvalue()


def edit(text: str, path: Sequence[str], value: Json) -> str:
    """The text with one value set (null: removed); comments, order and quotes stay. The text must be valid."""
    data, indent, offset = load_yaml_guess_indent(text, yaml=_writer(None, None))
    here: Any = data
    for segment in path[:-1]:
        key = _existing(here, segment)
        if not isinstance(here.get(key), dict):
            here[key] = {}
        here = here[key]
    key = _existing(here, path[-1])
    if value is None:
        here.pop(key, None)
    else:
        here[key] = _safe(value, quote=path[0] == "env")
    out = io.StringIO()
    _writer(indent, offset).dump(data, out)
    return out.getvalue()


def _existing(mapping: Mapping[object, object], segment: str) -> object:
    return next((key for key in mapping if str(key) == segment), segment)


def _writer(indent: int | None, offset: int | None) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=indent or 4, offset=2 if offset is None else offset)
    return yaml


def _safe(value: Json, *, quote: bool = False) -> object:
    """The value with every text quoted that another reader could take for something else."""
    if isinstance(value, dict):
        return {_safe(key): _safe(item, quote=quote) for key, item in value.items()}
    if isinstance(value, list):
        return [_safe(item, quote=quote) for item in value]
    if not isinstance(value, str):
        return value
    plain = not quote and _PLAIN.fullmatch(value) and value.lower() not in _LOOKS_OTHERWISE
    return value if plain else DoubleQuotedScalarString(value)
