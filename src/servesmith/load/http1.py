"""HTTP/1.1 as far as a client needs it: an address, a request's bytes, a response's head and frames. Pure."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import urlsplit

from servesmith.errors import InputError, Problem

_HEX = b"0123456789abcdefABCDEF"
_HEAD_LIMIT = 65_536

Bytes = bytes | bytearray


class MalformedResponse(ValueError):
    """The bytes are no HTTP/1.1 response. It becomes a record of class `malformed`, never a crash."""


@dataclass(frozen=True)
class Address:
    """Where a server listens: `http://host:port/base`."""

    host: str
    port: int
    base: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read a URL; raises InputError if it is none, or not http(s)."""
        remedy = "Write it as http://host:port"
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError as error:
            raise InputError(Problem(f"{url!r} has no usable port.", remedy, field="url")) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(Problem(f"{url!r} is not an http address.", remedy, field="url"))
        tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"), tls)

    def tls_context(self) -> ssl.SSLContext | None:
        """TLS settings of the platform, None for plain HTTP."""
        return ssl.create_default_context() if self.tls else None


def request_bytes(address: Address, path: str, body: Bytes = b"", key: str = "") -> bytes:
    """A whole request: POST with a JSON body, GET without one. `key` is a bearer key and stays in these bytes only."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [
        f"{'POST' if body else 'GET'} {address.base}{path} HTTP/1.1",
        f"Host: {host}:{address.port}",
        "User-Agent: servesmith",
        "Accept: */*",
    ]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Head(NamedTuple):
    """Status line and headers of a response."""

    status: int
    headers: dict[str, str]
    body_start: int
    keep_alive: bool

    @property
    def chunked(self) -> bool:
        """True if the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    @property
    def length(self) -> int | None:
        """Bytes of the body if the head says so; None: chunked, or until the server closes."""
        if self.chunked:
            return None
        if self.status == 204:
            return 0
        stated = self.headers.get("content-length", "")
        return int(stated) if stated.isascii() and stated.isdigit() else None


def parse_head(data: Bytes) -> Head | None:
    """The head of the final response in `data`, None while it is incomplete.

    Interim (1xx) responses are passed over. Raises MalformedResponse if this is not HTTP/1.x.
    """
    start = 0
    while True:
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            if not data.startswith(b"HTTP/1."[: len(data)]) or len(data) > start + _HEAD_LIMIT:
                raise MalformedResponse(f"not an HTTP/1.1 response: {bytes(data[:60])!r}")
            return None
        head = _read_head(bytes(data[start:end]), end + 4)
        if head.status >= 200:
            return head
        start = head.body_start


def _read_head(raw: bytes, body_start: int) -> Head:
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit() and len(code) == 3):
        raise MalformedResponse(f"not an HTTP/1.1 status line: {first[:60]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
    return Head(int(code), headers, body_start, keep_alive)


def walk_chunks(data: Bytes, position: int) -> tuple[int, bool]:
    """Step over whole chunks from the chunk boundary `position`: (last boundary reached, body complete).

    When complete, the position is the end of the response. Raises MalformedResponse on a size that is none.
    """
    while (size_and_start := _chunk_size(data, position)) is not None:
        size, start = size_and_start
        if size == 0:
            return _walk_trailer(data, start, position)
        if len(data) < start + size + 2:
            break
        if data[start + size : start + size + 2] != b"\r\n":
            raise MalformedResponse(f"a chunk of {size} bytes does not end where it should")
        position = start + size + 2
    return position, False


def _chunk_size(data: Bytes, position: int) -> tuple[int, int] | None:
    """Size of the chunk at `position` and where its payload starts; None if its size line is incomplete."""
    line_end = data.find(b"\r\n", position)
    if line_end < 0:
        return None
    return _size(bytes(data[position:line_end])), line_end + 2


def _size(line: bytes) -> int:
    """The size in a chunk's first line, whose extensions are passed over."""
    size = line.partition(b";")[0].strip()
    if not size or size.strip(_HEX):
        raise MalformedResponse(f"not a chunk size: {size[:40]!r}")
    return int(size, 16)


def _walk_trailer(data: Bytes, start: int, boundary: int) -> tuple[int, bool]:
    """Pass over trailer lines up to the empty line that ends the response."""
    while (line_end := data.find(b"\r\n", start)) >= 0:
        if line_end == start:
            return start + 2, True
        start = line_end + 2
    return boundary, False


class Body(NamedTuple):
    """A de-chunked body that knows when each of its bytes arrived."""

    data: bytes
    ends: Sequence[int]
    """Per span, the offset in `data` at which it ends."""
    raw_ends: Sequence[int]
    """Per span, the offset in the response at which it ends."""

    def raw_offset(self, end: int, span: int) -> int:
        """The offset in the response of body offset `end`, which lies in span number `span`."""
        return self.raw_ends[span] - (self.ends[span] - end)


def dechunk(data: bytes, head: Head) -> Body:
    """The payload of a response, an unfinished last chunk included. Raises MalformedResponse on broken chunks."""
    if head.chunked:
        return _plain_chunks(data, head.body_start) or _any_chunks(data, head.body_start)
    end = len(data) if head.length is None else min(len(data), head.body_start + head.length)
    return Body(data[head.body_start : end], [end - head.body_start], [end])


def _plain_chunks(data: bytes, start: int) -> Body | None:
    """The chunks of a whole response without CR LF in its payload, as most are; None if it is another.

    Cut at every CR LF, its sizes and payloads take turns up to the last chunk. If each payload is as long as its size
    says, then each chunk ends where the next begins, so these cuts are the right ones.
    """
    pieces = data[start:].split(b"\r\n")
    if pieces[-3:] != [b"0", b"", b""]:
        return None
    lines, payloads = pieces[:-3:2], pieces[1:-3:2]
    lengths = list(map(len, payloads))
    try:
        sizes = {line: _size(line) for line in set(lines)}
    except MalformedResponse:
        return None
    if [sizes[line] for line in lines] != lengths or 0 in lengths:
        return None
    ends = list(accumulate(lengths))
    line_ends = accumulate(map(len, lines))
    raw_ends = [
        start + 2 + 4 * n + line_end + end for n, (line_end, end) in enumerate(zip(line_ends, ends, strict=True))
    ]
    return Body(b"".join(payloads), ends, raw_ends)


def _any_chunks(data: bytes, position: int) -> Body:
    payloads: list[bytes] = []
    raw_ends: list[int] = []
    while (size_and_start := _chunk_size(data, position)) is not None and size_and_start[0]:
        size, start = size_and_start
        end = start + size
        payloads.append(data[start:end])
        raw_ends.append(min(end, len(data)))
        position = end + 2
        if data[end:position] not in (b"\r\n", b"\r", b""):
            raise MalformedResponse(f"a chunk of {size} bytes does not end where it should")
    return Body(b"".join(payloads), list(accumulate(map(len, payloads))), raw_ends)
