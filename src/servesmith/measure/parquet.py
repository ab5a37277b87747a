# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Request records as one Parquet file, written at once or not at all. The one door to pyarrow, which has no stubs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from servesmith.errors import EvidenceError
from servesmith.measure.records import RequestRecord, Window

SCHEMA_VERSION = 2

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("index", pa.int64()),
    ("stream", pa.int32()),
    ("due_ns", pa.int64()),
    ("sent_ns", pa.int64()),
    ("end_ns", pa.int64()),
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
    columns = [pa.array([getattr(record, name) for record in records], type=kind) for name, kind in _COLUMNS]
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_records(path: Path) -> tuple[tuple[RequestRecord, ...], Window]:
    """The records and their window. Raises EvidenceError if the file is missing, broken or of another version."""
    table = _read(path)
    try:
        window = msgspec.json.decode(table.schema.metadata[b"servesmith.window"], type=Window)
        records = msgspec.convert(table.to_pylist(), tuple[RequestRecord, ...])
    except (KeyError, msgspec.MsgspecError) as error:
        raise EvidenceError(str(path), f"is not a file of request records: {error}.", _REMEDY) from error
    return records, window


def read_doubts(path: Path) -> tuple[str, ...]:
    """The doubts that the load itself had about these records. Raises EvidenceError as `read_records`."""
    try:
        return msgspec.json.decode(_read(path).schema.metadata[b"servesmith.doubts"], type=tuple[str, ...])
    except (KeyError, msgspec.MsgspecError) as error:
        raise EvidenceError(str(path), f"does not say its doubts: {error}.", _REMEDY) from error


def _read(path: Path) -> Any:  # noqa: ANN401 - a pyarrow table, which has no type to name
    try:
        table = pq.read_table(path)
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
