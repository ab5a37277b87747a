"""One request on the wire: per read a stamp, the client's lateness and the bytes; all else comes after the stream."""

import re
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servesmith.load.http1 import Head, MalformedResponse, parse_head, walk_chunks
from servesmith.measure.records import ErrorClass
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds

_TOKEN = re.compile(rb'"(?:content|reasoning_content|reasoning|text)" *: *"[^"]|"(?:tool_calls|token_ids)" *: *\[[^\]]')
"""What a chunk with a token looks like; good enough to tell a hang from a slow stream, never used to count."""
_DONE = re.compile(rb"\ndata: ?\[DONE\](?:\r\n\r\n|\n\n)\r\n0\r\n\r\n\Z")
"""The last event of an OpenAI stream and the last chunk. No text can look so: in JSON a line end is always escaped."""
_DONE_BYTES = 32
_END = b"\r\n\r\n"
"""What a chunked response ends with; only a read that ends so is worth a closer look."""


@dataclass(frozen=True)
class Limits:
    """What one request may take. Times in seconds; they are checked four times a second."""

    connect_s: Seconds = 10.0
    first_token_s: Seconds = 60.0
    idle_s: Seconds = 60.0
    total_s: Seconds = 3600.0
    response_bytes: int = 256 * 1024 * 1024


class Exchange:
    """What was sent and what came back, raw. `error` stays empty while HTTP itself went well."""

    __slots__ = (
        "_ends_at",
        "_head_bytes",
        "_lengths",
        "_packed",
        "_streaming",
        "_walked",
        "detail",
        "end_ns",
        "ended",
        "error",
        "head",
        "lates",
        "parts",
        "request",
        "response_limit",
        "sent_ns",
        "size",
        "stamp_source",
        "stamps",
        "token_ns",
    )

    def __init__(self, request: bytes, response_limit: int) -> None:
        self.request = request
        self.response_limit = response_limit
        self.sent_ns: Nanos = 0
        self.end_ns: Nanos = 0
        self.stamps: array[int] = array("q")
        self.lates: array[int] = array("q")
        """Per read, how long its bytes had lain there: the client's own lag. 0 where the kernel does not stamp."""
        self.parts: list[bytes] = []
        self.size = 0
        self.head: Head | None = None
        self.token_ns: Nanos = 0
        """When a token was last known to have come, up to the last look; 0: none yet."""
        self.error: ErrorClass = ""
        self.detail = ""
        self.stamp_source: Literal["kernel", "loop"] = "loop"
        self.ended = False
        self._lengths: array[int] = array("L")
        self._packed = b""
        self._walked = 0
        self._streaming = False
        self._ends_at: int | None = None
        self._head_bytes = b""

    @property
    def lengths(self) -> Sequence[int]:
        """Bytes of each read."""
        return self._lengths if self._packed else [len(part) for part in self.parts]

    @property
    def buffer(self) -> bytes:
        """All bytes that came."""
        return zlib.decompress(self._packed) if self._packed else b"".join(self.parts)

    def receive(self, stamp: Nanos, data: bytes, late: Nanos = 0) -> bool:
        """Keep one read; True if the response is complete. Raises MalformedResponse."""
        self.stamps.append(stamp)
        self.lates.append(late)
        self.parts.append(data)
        self.size += len(data)
        if self._streaming and self.size <= self.response_limit:
            return (data.endswith(_END) or (len(data) < len(_END) and self._last(4) == _END)) and self._walk()
        return self._receive_more(data)

    def _receive_more(self, data: bytes) -> bool:
        """What is not the middle of a chunked response: its head, one of stated length, one that is too large."""
        if self.head is None and not self._begin(data):
            return False
        if self.size > self.response_limit:
            raise MalformedResponse(f"the response is larger than {self.response_limit} bytes")
        if self._ends_at is not None:
            return self.size >= self._ends_at
        return self._walk()

    def _begin(self, data: bytes) -> bool:
        """Read the head; False while it is incomplete."""
        self._head_bytes += data
        self.head = parse_head(self._head_bytes)
        if self.head is None:
            return False
        self._head_bytes = b""
        self._walked = self.head.body_start
        self._streaming = self.head.chunked
        if self.head.length is not None:
            self._ends_at = self.head.body_start + self.head.length
        return True

    def _walk(self) -> bool:
        """Walk the chunks not walked yet. A tail that looked like the end may be text that does.

        All chunks of a response cost a quarter of a millisecond, and in lock-step all streams end at once: so the end
        that every OpenAI stream has is known by itself, and that its chunks add up is seen when it is decoded.
        """
        if self.head is None or not self.head.chunked:
            return False
        if _DONE.search(self._last(_DONE_BYTES)):
            self._walked = self.size
            return True
        unwalked = self.size - self._walked
        position, complete = walk_chunks(self._last(unwalked), 0)
        self._walked += position
        return complete

    def _last(self, count: int) -> bytes:
        """The last `count` bytes that came."""
        pieces: list[bytes] = []
        for part in reversed(self.parts):
            if count <= 0:
                break
            pieces.append(part[-count:] if len(part) > count else part)
            count -= len(part)
        return b"".join(reversed(pieces))

    @property
    def exact(self) -> bool:
        """True if nothing came after the end of a complete response, so that the connection can go on."""
        return self.size == (self._walked if self._ends_at is None else self._ends_at)

    def close(self, now: Nanos, error: ErrorClass = "", detail: str = "") -> None:
        """End it; the first reason stands."""
        if not self.ended:
            self.end_ns = now
            self.error = error
            self.detail = "; ".join(filter(None, (self.detail, detail)))
            self.ended = True

    def pack(self) -> None:
        """Make an ended exchange small: a stream is the same JSON again and again, so it shrinks to a few per cent.

        Takes about half a microsecond a chunk, so it is done when nothing else is.
        """
        self._lengths = array("L", map(len, self.parts))
        self._packed = zlib.compress(b"".join(self.parts), 1)
        self.parts = []
        self.request = b""

    def restart(self, note: str) -> None:
        """Forget an attempt that the server never answered."""
        self.error = ""
        self.detail = note
        self.ended = False
        self.parts = []

    def has_token(self) -> bool:
        """True once a token has come. Searches the text only until the first one is found."""
        if not self.token_ns and self.parts and _TOKEN.search(self.buffer):
            self.token_ns = self.stamps[-1]
        return self.token_ns > 0

    def look(self) -> None:
        """Note in `token_ns` when something last came after the first token."""
        if self.has_token():
            self.token_ns = self.stamps[-1]

    def overdue(self, now: Nanos, limits: Limits) -> ErrorClass:
        """The limit that a request under way has passed, empty if none. `look` first."""
        waited = (now - self.sent_ns) / NANOS_PER_SECOND
        if waited > limits.total_s:
            return "timeout-total"
        if not self.token_ns:
            return "timeout-first-token" if waited > limits.first_token_s else ""
        return "timeout-idle" if (now - self.stamps[-1]) / NANOS_PER_SECOND > limits.idle_s else ""
