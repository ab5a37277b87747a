# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Request records as one Parquet file, written at once or not at all. The one door to pyarrow, which has no stubs.

Columns go from arrays to the file and back; a million chunks are written or read in about half a second.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from servesmith.errors import EvidenceError
from servesmith.measure.frame import INT_COLUMNS, TEXT_COLUMNS, Frame, frame_of, records_of
from servesmith.measure.records import ErrorClass, RequestRecord, TokenSource, Window

SCHEMA_VERSION = 3

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("index", pa.int64()),
    ("stream", pa.int64()),
    ("due_ns", pa.int64()),
    ("sent_ns", pa.int64()),
    ("end_ns", pa.int64()),
    ("asked", pa.string()),
    ("chunk_ns", pa.list_(pa.int64())),
    ("chunk_tokens", pa.list_(pa.float64())),
    ("chunk_kinds", pa.list_(pa.int8())),
    ("prompt_tokens_meant", pa.int64()),
    ("prompt_tokens", pa.int64()),
    ("cached_tokens", pa.int64()),
    ("output_tokens_meant", pa.int64()),
    ("output_tokens", pa.int64()),
    ("finish", pa.string()),
    ("token_source", pa.string()),
    ("stamp_source", pa.string()),
    ("client_lag_ns", pa.int64()),
    ("error", pa.string()),
    ("detail", pa.string()),
    ("text", pa.string()),
)
_WORDS = {
    "error": frozenset(get_args(ErrorClass)),
    "token_source": frozenset(get_args(TokenSource)),
    "stamp_source": frozenset({"kernel", "loop"}),
}
"""Columns that hold one of a few words."""
_CHUNK_COLUMNS = ("chunk_ns", "chunk_tokens", "chunk_kinds")
_REPEATING = [*TEXT_COLUMNS, "stream", *(f"{name}.list.element" for name in _CHUNK_COLUMNS[1:])]
"""What pays to be written as a dictionary; stamps are all different."""
_REMEDY = "Restore the file from where it was copied, or run the trial again."


def write_records(path: Path, records: Sequence[RequestRecord], window: Window, doubts: Sequence[str] = ()) -> None:
    """Write all records with the window and the load's doubts; equal input gives equal bytes.

    A reader sees the old file or the whole new one, never a part: written beside, flushed, renamed.
    """
    schema = pa.schema(
        _COLUMNS,
        metadata={
            "servesmith.schema": str(SCHEMA_VERSION),
            "servesmith.window": msgspec.json.encode(window).decode(),
            "servesmith.doubts": msgspec.json.encode(list(doubts)).decode(),
        },
    )
    table = pa.Table.from_arrays(_columns(frame_of(records)), schema=schema)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=_REPEATING)  # pyright: ignore[reportArgumentType]
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_records(path: Path) -> tuple[tuple[RequestRecord, ...], Window]:
    """The records and their window. Raises EvidenceError if the file is missing, broken or of another version."""
    frame, window = read_frame(path)
    return records_of(frame), window


def read_frame(path: Path) -> tuple[Frame, Window]:
    """The same in columns, for who needs no records: quicker, and a tenth of the memory. Raises as `read_records`."""
    table = _read(path)
    try:
        window = msgspec.json.decode(table.schema.metadata[b"servesmith.window"], type=Window)
        return _frame(table), window
    except (KeyError, ValueError, msgspec.MsgspecError, pa.ArrowException) as error:
        raise EvidenceError(str(path), f"is not a file of request records: {error}.", _REMEDY) from error


def read_doubts(path: Path) -> tuple[str, ...]:
    """The doubts that the load itself had about these records. Raises EvidenceError as `read_records`."""
    table = _read(path, columns=[])
    try:
        return msgspec.json.decode(table.schema.metadata[b"servesmith.doubts"], type=tuple[str, ...])
    except (KeyError, msgspec.MsgspecError) as error:
        raise EvidenceError(str(path), f"does not say its doubts: {error}.", _REMEDY) from error


def _columns(frame: Frame) -> list[Any]:
    offsets = pa.array(frame.offsets.astype(np.int32))
    chunks = {name: pa.ListArray.from_arrays(offsets, pa.array(getattr(frame, name))) for name in _CHUNK_COLUMNS}
    flat: dict[str, Any] = {**frame.ints, **frame.texts}
    return [chunks[name] if name in chunks else pa.array(flat[name], type=kind) for name, kind in _COLUMNS]


def _frame(table: Any) -> Frame:  # noqa: ANN401 - a pyarrow table, which has no type to name
    for name, kind in _COLUMNS:
        column = table.column(name)
        if column.type != kind or column.null_count:
            raise ValueError(f"its column {name} is {column.type} with {column.null_count} holes, not {kind}")
    lists = {name: table.column(name).combine_chunks() for name in _CHUNK_COLUMNS}
    offsets = [np.asarray(lists[name].offsets) - int(lists[name].offsets[0].as_py()) for name in _CHUNK_COLUMNS]
    if any(not np.array_equal(offsets[0], other) for other in offsets[1:]):
        raise ValueError("stamps, tokens and kinds of its chunks differ in number")
    texts = {name: table.column(name).to_pylist() for name in TEXT_COLUMNS}
    for name, words in _WORDS.items():
        if strange := set(texts[name]) - words:
            raise ValueError(f"its column {name} holds {min(strange)!r}")
    return Frame(
        ints={name: table.column(name).to_numpy() for name in INT_COLUMNS},
        texts=texts,
        offsets=offsets[0].astype(np.int64),
        chunk_ns=np.asarray(lists["chunk_ns"].flatten()),
        chunk_tokens=np.asarray(lists["chunk_tokens"].flatten()),
        chunk_kinds=np.asarray(lists["chunk_kinds"].flatten()),
    )


def _read(path: Path, columns: list[str] | None = None) -> Any:  # noqa: ANN401 - a pyarrow table, which has no type to name
    try:
        table = pq.read_table(path, columns=columns)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise EvidenceError(str(path), f"cannot be read as Parquet: {reason}.", _REMEDY) from error
    version = (table.schema.metadata or {}).get(b"servesmith.schema", b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise EvidenceError(
            str(path),
            f"has schema version {version}, this servesmith reads version {SCHEMA_VERSION}.",
            "Use the servesmith that wrote it.",
        )
    return table
