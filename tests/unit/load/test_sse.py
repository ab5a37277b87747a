from hypothesis import given
from hypothesis import strategies as st

from servesmith.load.http1 import dechunk, parse_head
from servesmith.load.sse import Events, arrival_times, decode_events


def lines_of(body: bytes) -> list[bytes]:
    lines, line, skip_lf = [], bytearray(), False
    for byte in body.removeprefix(b"\xef\xbb\xbf"):
        if skip_lf and byte == 0x0A:
            skip_lf = False
            continue
        skip_lf = byte == 0x0D
        if byte in (0x0A, 0x0D):
            lines.append(bytes(line))
            line.clear()
        else:
            line.append(byte)
    return [*lines, bytes(line), b""]


def reference(body: bytes) -> list[tuple[str, bytes]]:
    """The standard's algorithm, one byte at a time and slow: what it dispatches, a last unended event included."""
    events, data, name = [], [], b""
    for text in lines_of(body):
        field, value = text.split(b":", 1) if b":" in text else (text, b"")
        value = value[1:] if value[:1] == b" " else value
        if not text:
            events += [(name.decode("utf-8", "replace"), b"\n".join(data))] * bool(data)
            data, name = [], b""
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


PIECES = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"data: ", b": ping", b":", b"event: error", b"id: 7", b"retry: 3", b"dat: z",
     b"data: {\"a\": \"\xc3\xa9\"}", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\xef\xbb\xbf"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30))
def test_equals_the_standards_algorithm(pieces):
    body = b"".join(pieces)
    assert list(zip(*decode_events(body)[:2], strict=True)) == reference(body)


@given(st.lists(PIECES, max_size=30), st.data())
def test_a_part_gives_a_beginning_of_the_events(pieces, data):
    body = b"".join(pieces)
    # After a lone CR at the cut, a LF may still belong to it, so such a cut is not a boundary.
    cut = data.draw(st.integers(0, len(body)).filter(lambda at: body[at - 1 : at] != b"\r"))
    whole, part = decode_events(body), decode_events(body[:cut], complete=False)
    assert [list(column[: len(part.data)]) for column in whole[:2]] == [list(column) for column in part[:2]]


def test_crlf_multi_line_comments_and_names():
    body = b": ping\r\n\r\nevent: error\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"
    assert decode_events(body) == Events(["error", ""], [b"a\nb", b"c"], [44, 55])


def test_an_unended_event_counts_only_in_a_complete_body():
    assert decode_events(b"data: a\n\ndata: b\n") == Events(["", ""], [b"a", b"b"], [9, 17])
    assert decode_events(b"data: a\n\ndata: b\n", complete=False) == Events([""], [b"a"], [9])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.lists(st.integers(1, 25), min_size=1, max_size=60))
def test_an_event_arrives_with_the_read_that_brings_its_last_byte(chunk_sizes, read_sizes):
    body = b"".join(b"data: %d\n\n" % number for number in range(12))
    raw, at = bytearray(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 0
    last_byte: list[int] = []  # offset in the response of every body byte
    for size in [*chunk_sizes, len(body)]:
        part = body[at : at + size]
        if part:
            raw += b"%x\r\n" % len(part)
            last_byte += range(len(raw), len(raw) + len(part))
            raw += part + b"\r\n"
            at += len(part)
    raw += b"0\r\n\r\n"
    lengths = []
    while sum(lengths) < len(raw):
        lengths.append(min(read_sizes[len(lengths) % len(read_sizes)], len(raw) - sum(lengths)))
    events = decode_events(body)
    head = parse_head(raw)
    assert head is not None
    found = arrival_times(dechunk(bytes(raw), head), events.ends, range(1000, 1000 + len(lengths)), lengths)
    for end, stamp in zip(events.ends, found, strict=True):
        assert sum(lengths[: stamp - 1000]) <= last_byte[end - 1] < sum(lengths[: stamp - 1000 + 1])
