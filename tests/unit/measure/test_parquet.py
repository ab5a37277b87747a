from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import steady, window

from servesmith.errors import EvidenceError
from servesmith.measure.parquet import SCHEMA_VERSION, read_doubts, read_records, write_records
from servesmith.measure.records import RequestRecord, Window

INT = st.integers(-(2**62), 2**62)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
CHUNKS = st.lists(st.tuples(INT, st.floats(0, 1e6), st.integers(0, 5)), max_size=4)


@st.composite
def records(draw) -> RequestRecord:
    chunks = draw(CHUNKS)
    return RequestRecord(
        index=draw(INT),
        stream=draw(st.integers(0, 5000)),
        due_ns=draw(INT),
        sent_ns=draw(INT),
        end_ns=draw(INT),
        chunk_ns=tuple(stamp for stamp, _, _ in chunks),
        chunk_tokens=tuple(tokens for _, tokens, _ in chunks),
        chunk_kinds=tuple(kind for _, _, kind in chunks),
        prompt_tokens=draw(INT),
        output_tokens=draw(INT),
        finish=draw(TEXT),
        token_source=draw(st.sampled_from(["ids", "usage", "retokenised", "one-per-chunk", "none"])),
        error=draw(st.sampled_from(["", "cut", "malformed", "cancelled"])),
        detail=draw(TEXT),
        text=draw(TEXT),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(records(), max_size=5), INT, INT, st.lists(TEXT, max_size=2))
def test_what_is_written_is_read(tmp_path: Path, written, start, end, doubts):
    path = tmp_path / "requests.parquet"
    write_records(path, written, Window(start, end), doubts)
    assert read_records(path) == (tuple(written), Window(start, end))
    assert read_doubts(path) == tuple(doubts)


def test_equal_records_give_equal_bytes_and_no_other_file_is_left(tmp_path: Path):
    for name in ("a", "b"):
        write_records(tmp_path / name, steady(), window(0, 9), ["late"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "requests.parquet"
    write_records(path, steady(), window(0, 9))
    before = path.read_bytes()
    broken = RequestRecord(index="no number", stream=0, due_ns=0, sent_ns=0, end_ns=0)  # pyright: ignore
    with pytest.raises((TypeError, ValueError)):
        write_records(path, [broken], window(0, 9))
    assert path.read_bytes() == before


def test_what_cannot_be_read_names_the_file(tmp_path: Path):
    path = tmp_path / "requests.parquet"
    with pytest.raises(EvidenceError, match=r"requests\.parquet"):
        read_records(path)
    write_records(path, steady(), window(0, 9))
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(EvidenceError, match=r"requests\.parquet"):
        read_records(path)


def test_another_version_or_kind_of_file_is_refused(tmp_path: Path):
    path = tmp_path / "requests.parquet"
    write_records(path, steady(), window(0, 9))
    table = pq.read_table(path)
    for metadata, message in (({}, "version none"), ({"servesmith.schema": "99"}, "version 99")):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(EvidenceError, match=message):
            read_records(path)
    pq.write_table(table.select(["index"]).replace_schema_metadata({"servesmith.schema": str(SCHEMA_VERSION)}), path)
    with pytest.raises(EvidenceError, match="request records"):
        read_records(path)
