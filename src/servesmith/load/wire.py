"""One request on the wire: per read only a stamp, a length and the bytes; everything else happens after the stream.

Later receivers (kernel stamps, other processes) fill the same `Exchange` and change nothing behind it.
"""

import asyncio
import re
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from servesmith.load.http1 import Address, Head, MalformedResponse, parse_head, walk_chunks
from servesmith.measure.records import ErrorClass
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos, Seconds

Clock = Callable[[], Nanos]

_TOKEN = re.compile(rb'"(?:content|reasoning_content|reasoning|text)" *: *"[^"]|"(?:tool_calls|token_ids)" *: *\[[^\]]')
"""What a chunk with a token looks like; good enough to tell a hang from a slow stream, never used to count."""
_OVERLAP = 64
_RACE_NS = 100 * NANOS_PER_MS


@dataclass(frozen=True)
class Limits:
    """What one request may take. Times in seconds; the token limits are checked four times a second."""

    connect_s: Seconds = 10.0
    first_token_s: Seconds = 60.0
    idle_s: Seconds = 60.0
    total_s: Seconds = 3600.0
    response_bytes: int = 256 * 1024 * 1024


class Exchange:
    """What was sent and what came back, raw. `error` stays empty while HTTP itself went well."""

    def __init__(self, request: bytes, response_limit: int) -> None:
        self.request = request
        self.response_limit = response_limit
        self.sent_ns: Nanos = 0
        self.end_ns: Nanos = 0
        self.stamps: array[int] = array("q")
        self.lengths: array[int] = array("q")
        self.buffer = bytearray()
        self.head: Head | None = None
        self.token_ns: Nanos = 0
        """When a look last found that a token had come; 0: none yet."""
        self.error: ErrorClass = ""
        self.detail = ""
        self.stamp_source: Literal["kernel", "loop"] = "loop"
        self.ended = asyncio.Event()
        self._walked = 0
        self._ends_at: int | None = None
        self._scanned = 0

    def receive(self, stamp: Nanos, data: bytes) -> bool:
        """Keep one read; True if the response is complete. Raises MalformedResponse."""
        self.stamps.append(stamp)
        self.lengths.append(len(data))
        self.buffer += data
        if self.head is None:
            self.head = parse_head(self.buffer)
            if self.head is None:
                return False
            self._walked = self.head.body_start
            if self.head.length is not None:
                self._ends_at = self.head.body_start + self.head.length
        if len(self.buffer) > self.response_limit:
            raise MalformedResponse(f"the response is larger than {self.response_limit} bytes")
        if self._ends_at is not None:
            return len(self.buffer) >= self._ends_at
        # Only a tail that looks like the end is worth walking the chunks for.
        if not self.buffer.endswith(b"\r\n\r\n") or not self.head.chunked:
            return False
        self._walked, complete = walk_chunks(self.buffer, self._walked)
        return complete

    @property
    def exact(self) -> bool:
        """True if nothing came after the end of a complete response, so that the connection can go on."""
        return len(self.buffer) == (self._walked if self._ends_at is None else self._ends_at)

    def close(self, now: Nanos, error: ErrorClass = "", detail: str = "") -> None:
        """End it; the first reason stands."""
        if not self.ended.is_set():
            self.end_ns = now
            self.error = error
            self.detail = "; ".join(filter(None, (self.detail, detail)))
            self.ended.set()

    def restart(self, note: str) -> None:
        """Forget an attempt that the server never answered."""
        self.error = ""
        self.detail = note
        self.ended = asyncio.Event()

    def look(self, now: Nanos) -> None:
        """Note in `token_ns` if a token has come since the last look. Looks at new bytes only; not for the hot path."""
        if len(self.buffer) > self._scanned:
            found = _TOKEN.finditer(self.buffer, max(0, self._scanned - _OVERLAP))
            if any(match.end() > self._scanned for match in found):
                self.token_ns = now
            self._scanned = len(self.buffer)

    def overdue(self, now: Nanos, limits: Limits) -> ErrorClass:
        """The limit that a request under way has passed, empty if none. `look` first."""
        waited = (now - self.sent_ns) / NANOS_PER_SECOND
        if waited > limits.total_s:
            return "timeout-total"
        if not self.token_ns:
            return "timeout-first-token" if waited > limits.first_token_s else ""
        quiet = (now - self.stamps[-1]) / NANOS_PER_SECOND
        return "timeout-idle" if quiet > limits.idle_s else ""


class _Connection(asyncio.Protocol):
    """One TCP or TLS connection; carries one exchange at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self.open = False
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.open = True

    def send(self, exchange: Exchange) -> None:
        """Stamp and write; the exchange ends through its own event."""
        assert self._transport is not None
        self._exchange = exchange
        exchange.sent_ns = self._clock()
        self._transport.write(exchange.request)

    def data_received(self, data: bytes) -> None:
        now = self._clock()
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        try:
            complete = exchange.receive(now, data)
        except MalformedResponse as error:
            self._finish(exchange, now, "malformed", str(error))
            self.abort()
            return
        if complete:
            self._finish(exchange, now)
            self.answered += 1
            if not (exchange.head and exchange.head.keep_alive and exchange.exact):
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        exchange = self._exchange
        if exchange is None:
            return
        head = exchange.head
        until_close = head is not None and not head.chunked and head.length is None
        if exc is None and until_close:
            self._finish(exchange, self._clock())
        else:
            reason = str(exc) if exc else "the server closed the connection"
            self._finish(exchange, self._clock(), "cut", f"{reason} after {len(exchange.buffer)} bytes")

    def abort(self) -> None:
        """Close at once, without waiting for what is still to be written."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, exchange: Exchange, now: Nanos, error: ErrorClass = "", detail: str = "") -> None:
        self._exchange = None
        exchange.close(now, error, detail)


class Channel:
    """One stream's seat on the wire: a connection kept open, and reopened when the server has closed it."""

    def __init__(self, address: Address, limits: Limits, clock: Clock = time.monotonic_ns) -> None:
        self._address = address
        self._limits = limits
        self._clock = clock
        self._ssl = address.tls_context()
        self._connection: _Connection | None = None
        self._exchange: Exchange | None = None

    async def open(self) -> str:
        """Connect if there is no open connection; the reason in words if that failed, else empty."""
        if self._connection is not None and self._connection.open:
            return ""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.connect_s):
                _, self._connection = await loop.create_connection(
                    lambda: _Connection(self._clock), self._address.host, self._address.port, ssl=self._ssl
                )
        except TimeoutError:
            return f"no connection within {self._limits.connect_s:g} s"
        except OSError as error:
            return str(error) or type(error).__name__
        return ""

    @property
    def token_ns(self) -> Nanos:
        """When a check last found that a token had come; 0: none in the exchange under way."""
        return self._exchange.token_ns if self._exchange else 0

    def exchange(self, request: bytes) -> Exchange:
        """A fresh exchange for a request, to be given to `ask`."""
        return Exchange(request, self._limits.response_bytes)

    async def ask(self, exchange: Exchange) -> None:
        """Send it and wait for its end. Never raises for what the server or the network does.

        A kept-alive connection that the server closes without a byte of response is no failure of the
        server (RFC 9112, section 9.3.1): the request is sent once more on a new connection and stamped anew,
        unless the server held it longer than such a race can last; then the first stamp stands.
        """
        self._exchange = exchange
        held_since: Nanos = 0
        for resent in (False, True):
            failure = await self.open()
            if exchange.ended.is_set():
                return
            if failure or self._connection is None:
                exchange.sent_ns = exchange.sent_ns or self._clock()
                exchange.close(self._clock(), "connect", failure)
                return
            kept_alive = self._connection.answered > 0
            self._connection.send(exchange)
            exchange.sent_ns = held_since or exchange.sent_ns
            await exchange.ended.wait()
            if resent or not kept_alive or exchange.error != "cut" or exchange.buffer:
                return
            held_since = exchange.sent_ns if exchange.end_ns - exchange.sent_ns > _RACE_NS else 0
            exchange.restart("sent twice: the server had closed the kept-alive connection")

    def abort(self, error: ErrorClass, detail: str = "") -> None:
        """End the exchange under way, if there is one, and drop the connection."""
        if self._exchange is not None:
            self._exchange.close(self._clock(), error, detail)
        if self._connection is not None:
            self._connection.abort()

    def check(self) -> None:
        """End the exchange under way if it has passed a limit."""
        exchange, now = self._exchange, self._clock()
        if exchange is None or not exchange.sent_ns or exchange.ended.is_set():
            return
        exchange.look(now)
        if error := exchange.overdue(now, self._limits):
            self.abort(error, f"gave up {(now - exchange.sent_ns) / NANOS_PER_SECOND:.1f} s after sending")
