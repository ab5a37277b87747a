"""The whole of `verify`: a run's own records, and that its summary and its page follow from them."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from servesmith.errors import EvidenceError
from servesmith.report.nouns import Summary
from servesmith.report.page import PAGE, SUMMARY, render
from servesmith.report.sources import read_sources
from servesmith.report.summary import encode, read_summary
from servesmith.store.verify import Check, checked, require, verify_run
from servesmith.units import Json

_ANEW = "`servesmith report` makes it anew."
_GENERATOR = re.compile(r'<meta name="generator" content="([^"]*)">')
_FIGURE = re.compile(r"<figure>.*?</figure>", re.DOTALL)


def audit_run(folder: Path) -> tuple[Check, ...]:
    """Every check of a run and of what is told about it. Raises EvidenceError naming the files that differ."""
    checks = audit(folder)
    require(checks)
    return checks


def audit(folder: Path) -> tuple[Check, ...]:
    """As `audit_run`, but a difference is only a check that is not ok. Raises InputError if there is no run here."""
    checks = verify_run(folder)
    if not checks[0].ok:
        return checks
    summary = read_summary(folder)
    told = (
        checked(SUMMARY, lambda: _summary(folder / SUMMARY, summary)),
        checked(PAGE, lambda: _page(folder, summary)),
    )
    return (*checks, *told)


def _summary(path: Path, summary: Summary) -> str:
    if not path.exists():
        return f"is not there; {_ANEW}"
    data, expected = path.read_bytes(), encode(summary)
    if data == expected:
        return "follows from the journal, byte for byte"
    try:
        told = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise EvidenceError(SUMMARY, f"is no JSON any more: {error}.", _ANEW) from error
    place = next(differences(told, msgspec.json.decode(expected)), "only the layout differs")
    raise EvidenceError(SUMMARY, f"does not follow from the journal: {place}.", _ANEW)


def _page(folder: Path, summary: Summary) -> str:
    path = folder / PAGE
    if not path.exists():
        return f"is not there; {_ANEW}"
    told, expected = path.read_text(errors="replace"), render(summary, read_sources(folder, summary))
    if told == expected:
        return "is drawn again from journal and records, byte for byte"
    if (theirs := _generator(told)) != (ours := _generator(expected)):
        told, expected = (_without_charts(text).replace(name, "") for text, name in ((told, theirs), (expected, ours)))
        if told == expected:
            return f"all its text follows; its charts were drawn by {theirs}, which is not here to draw them again"
    raise EvidenceError(PAGE, f"is not the page of this run: {_first_difference(told, expected)}.", _ANEW)


def differences(told: Json, expected: Json, place: str = "") -> Iterator[str]:
    """Where two JSON values part, in words, in order."""
    match told, expected:
        case dict(), dict():
            for key in sorted(told.keys() | expected.keys()):
                where = f"{place}.{key}".lstrip(".")
                if key in told and key in expected:
                    yield from differences(told[key], expected[key], where)
                else:
                    yield f"{where} {'is missing' if key in expected else 'does not belong there'}"
        case list(), list() if len(told) == len(expected):
            for number, (one, other) in enumerate(zip(told, expected, strict=True)):
                yield from differences(one, other, f"{place}[{number}]")
        case _ if told != expected:
            yield f"{place} is {_short(told)}, the journal gives {_short(expected)}"
        case _:
            return


def _short(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _generator(page: str) -> str:
    found = _GENERATOR.search(page)
    return found.group(1) if found else ""


def _without_charts(page: str) -> str:
    return _FIGURE.sub("<figure></figure>", page)


def _first_difference(told: str, expected: str) -> str:
    """The first line that differs, shortened around the place where it does."""
    pairs = zip([*told.splitlines(), ""], [*expected.splitlines(), ""], strict=False)
    for number, (one, other) in enumerate(pairs, start=1):
        if one != other:
            parts = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
            start = max(0, next(parts, min(len(one), len(other))) - 20)
            return f"line {number} says {one[start : start + 50]!r} where it should say {other[start : start + 50]!r}"
    return "its length differs"
