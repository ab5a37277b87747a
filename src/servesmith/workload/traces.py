"""Readers of recorded request traces: when requests came, how long they were, what they had in common.

| format | file | time | source |
| --- | --- | --- | --- |
| mooncake | JSONL: timestamp, input_length, output_length, hash_ids (blocks of 512 tokens) | milliseconds | [Mooncake]\
(https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release) |
| timed | the same keys (blocks of 16 tokens); `vllm bench serve --dataset-name timed_trace`; Bailian's chat_id and \
parent_chat_id give sessions | seconds | [vLLM](https://github.com/vllm-project/vllm/pull/39795), \
[Bailian](https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon) |
| azure | CSV: TIMESTAMP, ContextTokens, GeneratedTokens | date and time, to 100 ns | [Azure]\
(https://github.com/Azure/AzurePublicDataset/blob/master/AzureLLMInferenceDataset2023.md) |
| burstgpt | CSV: Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type, in later files also \
Session ID and Elapsed time | seconds | [BurstGPT](https://github.com/HPMLL/BurstGPT) |

What a reader changes it says in `Trace.notes`; it never repairs a line: what it cannot read it refuses, with its place.
"""

import csv
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import TraceFormat
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds

BLOCKS = {"mooncake": 512, "timed": 16}
"""Tokens that one entry of `hash_ids` stands for."""
_SHOWN = 60
_SNIFFED = 200
_REMEDY = "Correct or delete the line; trace_format names the format if it is another one."


class TraceRow(msgspec.Struct, frozen=True):
    """One recorded request."""

    offset_ns: Nanos
    """From the first row of the file; in a window, from where the window begins."""
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()
    """Blocks of the prompt, the first first; equal ids are equal tokens. Empty: the trace says nothing."""
    session: str = ""
    """Rows of one talk share it; empty: the trace says nothing."""


class Trace(msgspec.Struct, frozen=True):
    """Rows in order of time, and what was done to the file's lines to get them."""

    rows: tuple[TraceRow, ...]
    format: str
    block_tokens: int = 0
    notes: tuple[str, ...] = ()
    span_ns: Nanos = 0
    """From the first row to the last, or the width of the window."""


class _BadLine(ValueError):
    """What is wrong with one line; its place is added where it is known."""


Timed = tuple[Nanos, TraceRow]
"""A row with its time in the file's own clock."""


def read_trace(path: Path, kind: TraceFormat = "auto") -> Trace:
    """The trace in a file. Raises InputError with file and line if it cannot be read or a line is not of its format.

    Rows are sorted by time, and rows that ask for nothing (no prompt or no output token: BurstGPT's failed requests)
    are left out; both are said in `notes`.
    """
    lines = _lines(path)
    found = kind if kind != "auto" else _format_of(lines, path)
    reader = _csv_rows if found in ("azure", "burstgpt") else _json_rows
    timed = list(reader(lines, found, path))
    if not timed:
        raise InputError(Problem("Has no request in it.", "Give a trace with at least one row.", str(path)))
    notes: list[str] = []
    late = sum(after[0] < before[0] for before, after in pairwise(timed))
    if late:
        notes.append(f"{late} rows were earlier than the row before them: the trace was sorted by time")
        timed.sort(key=lambda row: row[0])
    first, last = timed[0][0], timed[-1][0]
    rows = [msgspec.structs.replace(row, offset_ns=at - first) for at, row in timed]
    asked = tuple(row for row in rows if row.prompt_tokens > 0 and row.output_tokens > 0)
    if len(asked) < len(rows):
        notes.append(f"{len(rows) - len(asked)} of {len(rows)} rows have no prompt or no output token: left out")
    if not asked:
        raise InputError(Problem("Has only rows without tokens.", "Give another trace.", str(path)))
    return Trace(asked, found, BLOCKS.get(found, 0), tuple(notes), last - first)


def window(trace: Trace, start_s: Seconds = 0.0, end_s: Seconds = 0.0, speedup: float = 1.0) -> Trace:
    """The rows with start_s <= offset < end_s (end_s 0: all after start_s), offsets from start_s, divided by `speedup`.

    Silence before the first row of the window is kept. Raises InputError if no row lies in it.
    """
    start = round(start_s * NANOS_PER_SECOND)
    end = round(end_s * NANOS_PER_SECOND) if end_s else trace.span_ns + 1
    rows = tuple(
        msgspec.structs.replace(row, offset_ns=_faster(row.offset_ns - start, speedup))
        for row in trace.rows
        if start <= row.offset_ns < end
    )
    if not rows:
        message = f"No row of the trace lies between {start_s:g} and {end / NANOS_PER_SECOND:g} s."
        remedy = f"It lasts {trace.span_ns / NANOS_PER_SECOND:g} s: choose a part of it."
        raise InputError(Problem(message, remedy, field="load.arrivals.start_s"))
    span = min(end, trace.span_ns + 1) - start
    return msgspec.structs.replace(trace, rows=rows, span_ns=_faster(span, speedup))


def _faster(offset: Nanos, speedup: float) -> Nanos:
    return offset if speedup == 1.0 else round(offset / speedup)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(Problem(f"Is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.", str(path))) from None
    except OSError as error:
        raise InputError(Problem(f"Cannot be read: {error.strerror}.", "Check the path.", str(path))) from None


def _format_of(lines: list[str], path: Path) -> TraceFormat:
    """By the header, or by how many tokens a block has. Raises InputError where both units of time are possible."""
    head = next((line for line in lines if line.strip()), "")
    columns = {name.strip().strip('"').lower() for name in head.split(",")}
    if {"timestamp", "contexttokens", "generatedtokens"} <= columns:
        return "azure"
    if {"timestamp", "request tokens", "response tokens"} <= columns:
        return "burstgpt"
    if not head.lstrip().startswith("{"):
        message, remedy = f"Is in no known trace format: {head[:_SHOWN]!r}.", "Known: mooncake, timed, azure, burstgpt."
        raise InputError(Problem(message, remedy, str(path), 1))
    sample = [row for _, row in zip(range(_SNIFFED), _json_rows(lines, "mooncake", path), strict=False)]
    with_blocks = [row for _, row in sample if row.hash_ids]
    formats: tuple[TraceFormat, ...] = ("mooncake", "timed")
    fits: list[TraceFormat] = [
        name
        for name in formats
        if with_blocks and all(len(row.hash_ids) == -(-row.prompt_tokens // BLOCKS[name]) for row in with_blocks)
    ]
    if len(fits) == 1:
        return fits[0]
    message = "Does not show whether its timestamps are milliseconds (mooncake) or seconds (timed)."
    raise InputError(Problem(message, "Say which with trace_format: mooncake or trace_format: timed.", str(path), 1))


# --- JSON lines


class _Line(msgspec.Struct):
    timestamp: float | int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()
    chat_id: int | str | None = None
    parent_chat_id: int | str | None = None


def _json_rows(lines: list[str], kind: str, path: Path) -> Iterator[Timed]:
    decoder = msgspec.json.Decoder(_Line)
    unit = NANOS_PER_MS if kind == "mooncake" else NANOS_PER_SECOND
    roots: dict[str, str] = {}

    def row(text: str) -> Timed:
        try:
            line = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise _BadLine(f"Is no request of a {kind} trace: {error}.") from None
        counts = _Counts(line.input_length, line.output_length)
        return round(line.timestamp * unit), _row(counts, line.hash_ids, _session(line, roots))

    return _each(((number, text) for number, text in enumerate(lines, 1) if text.strip()), row, path)


def _session(line: _Line, roots: dict[str, str]) -> str:
    """The first chat of the chain that a Bailian row belongs to; a parent outside the file begins one."""
    if line.chat_id is None:
        return ""
    chat, parent = str(line.chat_id), str(line.parent_chat_id)
    roots[chat] = chat if parent in ("-1", "None") else roots.get(parent, parent)
    return roots[chat]


# --- CSV


_TIMES = {"azure": "timestamp", "burstgpt": "timestamp"}
_PROMPTS = {"azure": "contexttokens", "burstgpt": "request tokens"}
_OUTPUTS = {"azure": "generatedtokens", "burstgpt": "response tokens"}


def _csv_rows(lines: list[str], kind: str, path: Path) -> Iterator[Timed]:
    first = next((number for number, text in enumerate(lines) if text.strip()), 0)
    header = [name.strip().lower() for name in next(csv.reader([lines[first]]), list[str]())]
    missing = [name for name in (_TIMES[kind], _PROMPTS[kind], _OUTPUTS[kind]) if name not in header]
    if missing:
        message = f"Has no column {', '.join(missing)}, which a {kind} trace has."
        raise InputError(Problem(message, "Give the file with its header line, or name its format.", str(path), 1))
    places = [header.index(name) for name in (_TIMES[kind], _PROMPTS[kind], _OUTPUTS[kind])]
    session = header.index("session id") if "session id" in header else -1
    time_of = _date if kind == "azure" else _seconds

    def row(text: str) -> Timed:
        cells = _cells(text)
        if len(cells) != len(header):
            raise _BadLine(f"Has {len(cells)} columns, the header {len(header)}.")
        when, prompt, output = (cells[place].strip() for place in places)
        counts = _Counts(_whole(prompt), _whole(output))
        return time_of(when), _row(counts, (), cells[session].strip() if session >= 0 else "")

    below = enumerate(lines[first + 1 :], first + 2)
    return _each(((number, text) for number, text in below if text.strip()), row, path)


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise _BadLine(f"Is no line of a CSV file: {error}.") from None


def _date(text: str) -> Nanos:
    """`2023-11-16 18:17:03.9799600` to nanoseconds since 1970, all digits of the fraction kept."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text)
    try:
        whole = datetime.fromisoformat(found[1] + (found[3] or "+00:00")).astimezone(UTC) if found else None
    except ValueError:  # a 13th month
        whole = None
    if found is None or whole is None:
        raise _BadLine(f"{text[:_SHOWN]!r} is no date and time such as 2023-11-16 18:17:03.9799600.")
    return round(whole.timestamp()) * NANOS_PER_SECOND + int((found[2] or "0").ljust(9, "0"))


def _seconds(text: str) -> Nanos:
    try:
        seconds = Decimal(text)
        return int(seconds * NANOS_PER_SECOND)
    except (InvalidOperation, ValueError, OverflowError):
        raise _BadLine(f"{text[:_SHOWN]!r} is no time in seconds.") from None


def _whole(text: str) -> int:
    """`374`, and `374.0`, as spreadsheets write it."""
    if found := re.fullmatch(r"(-?\d{1,15})(\.0*)?", text):
        return int(found[1])
    raise _BadLine(f"{text[:_SHOWN]!r} is no number of tokens.")


# --- both


class _Counts(msgspec.Struct):
    prompt: int
    output: int


def _row(counts: _Counts, hash_ids: tuple[int, ...], session: str) -> TraceRow:
    if counts.prompt < 0 or counts.output < 0:
        raise _BadLine(f"Has a negative number of tokens ({min(counts.prompt, counts.output)}).")
    return TraceRow(0, counts.prompt, counts.output, hash_ids, session)


def _each(numbered: Iterator[tuple[int, str]], row: Callable[[str], Timed], path: Path) -> Iterator[Timed]:
    for number, text in numbered:
        try:
            yield row(text)
        except _BadLine as bad:
            raise InputError(Problem(str(bad), _REMEDY, str(path), number)) from None
