"""What was answered to which item: the raw record of the quality gate, one file a task.

A file is JSON lines: first the header (task, chance, licence, seed, items), then one answer a line, in item order.
From two such files, one of A and one of B, the gate can be computed again without any server.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.records import ErrorClass

ANSWERS = "quality"
"""Folder of a quality trial that holds one file a task."""
GREEDY = "greedy.json"
"""File of a quality trial with the free answers at one stream."""
SUFFIX = ".jsonl"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One item's answer. A request that failed is a wrong answer with its error class."""

    item: int
    prompt: str
    """First 16 hex digits of the SHA-256 of the messages."""
    expected: str
    answer: str
    right: bool
    finish: str = ""
    """The server's finish reason; `length`: cut at the item's token limit."""
    error: ErrorClass = ""

    def __post_init__(self) -> None:
        if self.right and self.error:
            raise ValueError(f"item {self.item} cannot be right: its request failed ({self.error})")


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """All answers of one arm to one task."""

    task: str
    chance: float
    """Accuracy of guessing."""
    licence: str
    seed: int
    answers: tuple[Answer, ...]

    @property
    def right(self) -> int:
        """Right answers."""
        return sum(answer.right for answer in self.answers)

    @property
    def failed(self) -> int:
        """Answers that never came because the request failed."""
        return sum(answer.error != "" for answer in self.answers)

    @property
    def truncated(self) -> int:
        """Answers cut at the token limit."""
        return sum(answer.finish == "length" for answer in self.answers)


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: str
    chance: float
    licence: str
    seed: int
    items: int


def write_sheets(folder: Path, sheets: Sequence[Sheet]) -> tuple[Path, ...]:
    """Write one file a task, `<task>.jsonl`, into the folder (made if missing); returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    paths: list[Path] = []
    for sheet in sheets:
        header = _Header(sheet.task, sheet.chance, sheet.licence, sheet.seed, len(sheet.answers))
        path = folder / f"{sheet.task}{SUFFIX}"
        path.write_bytes(encoder.encode_lines([header, *sheet.answers]))
        paths.append(path)
    return tuple(paths)


def read_sheets(folder: Path) -> tuple[Sheet, ...]:
    """Read every task's file of a folder, by name. Raises EvidenceError naming a broken file and its line."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise EvidenceError(str(folder), "there are no answers here.", "Restore the folder from its evidence.")
    return tuple(read_sheet(path) for path in paths)


def read_sheet(path: Path) -> Sheet:
    """Read one task's file. Raises EvidenceError naming the file, and the line where there is one."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise EvidenceError(str(path), f"cannot be read: {error.strerror}.") from error
    if not lines:
        raise EvidenceError(str(path), "is empty; the first line must say which task it is.")
    header = _decode(path, 1, lines[0], _Header)
    answers = tuple(_decode(path, number, line, Answer) for number, line in enumerate(lines[1:], start=2))
    if [answer.item for answer in answers] != list(range(header.items)):
        raise EvidenceError(
            str(path), f"its first line promises the answers to items 0 to {header.items - 1}; {len(answers)} are here."
        )
    return Sheet(task=header.task, chance=header.chance, licence=header.licence, seed=header.seed, answers=answers)


_Line = TypeVar("_Line")


def _decode(path: Path, number: int, line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{path}:{number}", f"is not what was written: {error}") from error
