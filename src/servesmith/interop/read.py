"""Files of other tools to `Foreign`: the format is recognised by what is in the file, never by its name."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from servesmith.errors import InputError, Problem
from servesmith.interop import aiperf, bench, guidellm, inferencex, own
from servesmith.interop.fields import Fields
from servesmith.interop.nouns import Foreign


class Format(NamedTuple):
    """One format: its name, what gives it away, and its reader."""

    name: str
    recognises: Callable[[Fields], bool]
    read: Callable[[Fields, str], list[Foreign]]


FORMATS = (
    Format("servesmith export --format vllm", own.is_own, own.read_own),
    Format("GuideLLM JSON", guidellm.is_guidellm, guidellm.read_guidellm),
    Format("AIPerf profile export JSON", aiperf.is_aiperf, aiperf.read_aiperf),
    Format("InferenceX row", inferencex.is_row, inferencex.read_row),
    Format("InferenceX client JSON", inferencex.is_raw, inferencex.read_raw),
    Format("SGLang bench_serving JSONL", bench.is_sglang, bench.read_sglang),
    Format("vLLM bench serve JSON", bench.is_vllm, bench.read_vllm),
)
"""The narrower one first."""
_KNOWN = ", ".join(format_.name for format_ in FORMATS)


def read_results(paths: Sequence[Path]) -> tuple[Foreign, ...]:
    """Every result of every file, in order. Raises InputError with the problems of all files."""
    found: list[Foreign] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found += _read_file(path)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    return tuple(found)


def _read_file(path: Path) -> list[Foreign]:
    return [result for place, document in _documents(path) for result in _read_document(document, path, place)]


def _read_document(document: object, path: Path, place: str) -> list[Foreign]:
    fields = Fields(cast("Mapping[str, object]", document) if isinstance(document, Mapping) else {})
    for format_ in FORMATS:
        if format_.recognises(fields):
            results = format_.read(fields, str(path))
            if all(result.numbers for result in results):
                return results
            message = f"{place}looks like {format_.name}, but none of its numbers is there."
            raise InputError(Problem(message, "Was the run cut off, or did every request fail?", file=str(path)))
    message = f"{place}is no result that is known here. Expected one of: {_KNOWN}."
    raise InputError(Problem(message, "Give the JSON or JSONL that the tool itself wrote.", file=str(path)))


def _documents(path: Path) -> list[tuple[str, object]]:
    """Every document of a file with where it stands: JSON, a JSON list of them, or one a line."""
    text = _text(path)
    try:
        whole: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _lines(text, path, error)
    if isinstance(whole, list) and whole:
        return [(f"entry {number} ", entry) for number, entry in enumerate(cast("list[object]", whole), 1)]
    return [("", whole)]


def _lines(text: str, path: Path, whole: Exception) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append((f"line {number} ", json.loads(line)))
        except (ValueError, RecursionError) as error:
            told = f"line {number} is no JSON: {_short(error)}" if found else f"is no JSON: {_short(whole)}"
            raise InputError(Problem(f"{told}.", f"Expected one of: {_KNOWN}.", file=str(path))) from error
    if not found:
        raise InputError(Problem("is empty.", f"Expected one of: {_KNOWN}.", file=str(path)))
    return found


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}.", "Give the path of a result file.", file=str(path))
        raise InputError(problem) from error
    except UnicodeDecodeError as error:
        problem = Problem("is no text in UTF-8.", f"Expected one of: {_KNOWN}.", file=str(path))
        raise InputError(problem) from error
