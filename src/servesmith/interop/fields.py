"""A JSON document of another tool, field by field, that knows which of its fields were used."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from servesmith.interop.nouns import Definition, Number
from servesmith.measure.metrics import METRICS
from servesmith.measure.records import Metric

_NO_METRIC = "no metric here"
_NO_NUMBER = "no number"
_NEGATIVE = "The file tells a negative number, which this cannot be."


class Place(NamedTuple):
    """Where a tool keeps one of our metrics; `scale` times its value is in our unit."""

    key: str
    field: str
    scale: float = 1.0


class Fields:
    """Reads fields by path (`/` between the levels, a list by its index) and remembers them."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self._used: set[str] = set()

    def has(self, path: str) -> bool:
        """True if the field is there and not null. Does not count as use."""
        return self._find(path) is not None

    def number(self, path: str) -> float | None:
        """A finite number; None where there is none."""
        value = finite(self._find(path))
        if value is not None:
            self._used.add(path)
        return value

    def text(self, path: str) -> str:
        """A text as it can be printed; empty where there is none."""
        value = self._find(path)
        if not isinstance(value, str):
            return ""
        self._used.add(path)
        return printable(value)

    def is_true(self, path: str) -> bool:
        """True if the field is the value true. Does not count as use."""
        return self._find(path) is True

    def below(self, path: str) -> "Fields":
        """The object at a path with a memory of its own, empty if there is none; it counts as used here."""
        self._used.add(path)
        return Fields(_as_mapping(self._find(path)) or {})

    def skip(self, *paths: str) -> None:
        """Fields that say again what another one said."""
        self._used.update(path for path in paths if self.has(path))

    def unmapped(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Every field that was not used, with its reason: by path, by last name, else the general one."""
        return {printable(path): reasons.get(path, why) for path, why in self._untouched(self._document, "", reasons)}

    def _find(self, path: str) -> object:
        node: object = self._document
        for name in path.split("/"):
            node = _child(node, name)
        return node

    def _untouched(
        self, node: Mapping[str, object], above: str, reasons: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        for name, value in node.items():
            path = above + name
            if path in self._used:
                continue
            below = _as_mapping(value)
            if below is not None and any(used.startswith(f"{path}/") for used in self._used):
                yield from self._untouched(below, f"{path}/", reasons)
            else:
                number = finite(value) is not None or isinstance(value, Mapping | list)
                yield path, reasons.get(name, _NO_METRIC if number else _NO_NUMBER)


def take(fields: Fields, places: Sequence[Place], definitions: Mapping[str, Definition]) -> dict[str, Number]:
    """The numbers that are there. `definitions` go by whole key or by its family (`ttft`, `tpot`, `itl`, `e2e`)."""
    numbers: dict[str, Number] = {}
    for place in places:
        value = fields.number(place.field)
        if value is not None and place.key not in numbers:
            numbers[place.key] = make(place.key, value * place.scale, place.field, definitions)
    return numbers


def make(key: str, value: float, field: str, definitions: Mapping[str, Definition], doubt: str = "") -> Number:
    """One number under our key, in our unit."""
    kind = METRICS[key]
    doubts = tuple(filter(None, (doubt, _NEGATIVE if value < 0 else "")))
    definition = definitions.get(key) or definitions[key.partition("_")[0]]
    return Number(Metric(value, kind.unit, kind.better, doubts), field, definition)


def error_rate(fields: Fields, well: str, failed: str, definitions: Mapping[str, Definition]) -> dict[str, Number]:
    """Failed of all, where the file tells both counts."""
    good, bad = fields.number(well), fields.number(failed)
    if good is None or bad is None or good + bad <= 0:
        return {}
    return {"error_rate": make("error_rate", bad / (good + bad), f"{failed} / ({well} + {failed})", definitions)}


def ratio(total: float | None, count: float | None) -> float | None:
    """A mean from a sum and a count."""
    return None if total is None or not count else total / count


def finite(value: object) -> float | None:
    """The value as a finite number; None if it is none (true and false are none)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor or could not be encoded."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def _child(node: object, name: str) -> object:
    mapping = _as_mapping(node)
    if mapping is not None:
        return mapping.get(name)
    if isinstance(node, list) and name.isascii() and name.isdigit():
        entries = cast("list[object]", node)
        return entries[int(name)] if int(name) < len(entries) else None
    return None


def _as_mapping(node: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", node) if isinstance(node, Mapping) else None
