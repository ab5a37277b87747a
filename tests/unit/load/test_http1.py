import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.load.http1 import Address, MalformedResponse, dechunk, parse_head, request_bytes, walk_chunks

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"


def chunked(parts: list[bytes], trailer: bytes = b"") -> bytes:
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8000", Address("localhost", 8000)),
        ("http://h", Address("h", 80)),
        ("https://h/base/", Address("h", 443, "/base", tls=True)),
        ("http://[::1]:9", Address("::1", 9)),
    ],
)
def test_address(url, expected):
    assert Address.parse(url) == expected


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://h", "http://", "http://h:99999", ""])
def test_an_address_that_is_none_is_refused_with_a_remedy(url):
    with pytest.raises(InputError, match="http://host:port"):
        Address.parse(url)


def test_request_bytes_carry_length_and_key():
    raw = request_bytes(Address.parse("http://[::1]:9/base"), "/v1/x", b'{"a":1}', "secret")
    assert raw.startswith(b"POST /base/v1/x HTTP/1.1\r\nHost: [::1]:9\r\n")
    assert b"Content-Length: 7\r\n" in raw and b"Authorization: Bearer secret\r\n" in raw
    assert raw.endswith(b'\r\n\r\n{"a":1}')


def test_interim_responses_are_passed_over():
    head = parse_head(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD)
    assert head is not None and head.status == 200 and head.chunked and head.keep_alive


def test_keep_alive_follows_version_and_header():
    assert not parse_head(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").keep_alive
    assert not parse_head(b"HTTP/1.0 200 OK\r\n\r\n").keep_alive
    assert parse_head(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").keep_alive


@pytest.mark.parametrize("raw", [b"SSH-2.0-x", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 2\r\n\r\n"])
def test_what_is_not_http_is_malformed(raw):
    with pytest.raises(MalformedResponse):
        parse_head(raw)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.sampled_from([b"", b"X-Sum: 1\r\n"]), st.data())
def test_the_end_is_found_exactly_and_nowhere_else(parts, trailer, data):
    raw = chunked(parts, trailer)
    cut = data.draw(st.integers(len(HEAD), len(raw)))
    position, complete = walk_chunks(raw[:cut], len(HEAD))
    assert complete == (cut == len(raw))
    position, complete = walk_chunks(raw, position)  # goes on from where it was
    assert complete or cut == len(raw)
    head = parse_head(raw)
    assert head is not None and dechunk(raw, head).data == b"".join(parts)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8), st.data())
def test_an_unfinished_body_gives_what_has_come(parts, data):
    raw = chunked(parts)
    cut = data.draw(st.integers(len(HEAD), len(raw)))
    head = parse_head(raw)
    assert head is not None and b"".join(parts).startswith(dechunk(raw[:cut], head).data)


@pytest.mark.parametrize("size", [b"0x5", b"+5", b"1_0", b"", b"g", b"-1"])
def test_a_size_that_is_none_is_malformed(size):
    with pytest.raises(MalformedResponse):
        walk_chunks(size + b"\r\nhello\r\n", 0)


def test_a_chunk_that_does_not_end_is_malformed():
    with pytest.raises(MalformedResponse):
        walk_chunks(b"3\r\nhello\r\n", 0)


@pytest.mark.parametrize("tail", [b"x", b"\rx", b"xy3\r\nabc\r\n", b"\n"])
def test_a_chunk_that_ends_where_it_should_not_is_seen_in_a_response_that_was_cut(tail):
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello" + tail
    head = parse_head(raw)
    assert head is not None
    with pytest.raises(MalformedResponse, match="does not end where it should"):
        dechunk(raw, head)
    for cut in (b"", b"\r", b"\r\n", b"\r\n3", b"\r\n0\r\n"):
        assert dechunk(raw[: -len(tail)] + cut, head).data == b"hello"
