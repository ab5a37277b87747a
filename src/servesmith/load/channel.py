"""One stream's seat on the wire: a connection opened ahead, kept open, and reopened when the server has closed it."""

import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from servesmith.errors import MachineError
from servesmith.load.http1 import Address, MalformedResponse
from servesmith.load.reactor import READ, WRITE, Reactor
from servesmith.load.stamps import ANCILLARY_BYTES, TIMESPEC, StampReader, ask_for_stamps
from servesmith.load.tls import Tls
from servesmith.load.wire import Exchange, Limits
from servesmith.measure.records import ErrorClass
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos

_READ_BYTES = 16_384
_RACE_NS = 100 * NANOS_PER_MS
_PENDING = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN})

_unpack = TIMESPEC.unpack

Done = Callable[[Exchange], None]


@dataclass(frozen=True)
class Target:
    """A server's address, looked up once, so that no name server stands between a request and its time."""

    address: Address
    family: int
    sockaddr: tuple[object, ...]
    tls: ssl.SSLContext | None

    @classmethod
    def resolve(cls, address: Address) -> "Target":
        """Look the host up. Raises MachineError if its name leads nowhere."""
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise MachineError(
                f"{address.host} cannot be looked up: {error}.", "Check the name in the address, and the network."
            ) from error
        family, _, _, _, sockaddr = found[0]
        return cls(address, family, sockaddr, address.tls_context())


class Channel:
    """Carries one exchange at a time. Never raises for what the server or the network does.

    A kept-alive connection that the server closes without a byte of response is no failure of the server (RFC 9112,
    section 9.3.1): the request is sent once more on a new connection and stamped anew, unless the server held it longer
    than such a race can last; then the first stamp stands.
    """

    def __init__(self, reactor: Reactor, target: Target, limits: Limits, stamps: StampReader) -> None:
        self._reactor = reactor
        self._clock = reactor.clock
        self._target = target
        self._limits = limits
        self._stamps = stamps
        self._socket: socket.socket | None = None
        self._recvmsg: Callable[[int, int], tuple[bytes, list[tuple[int, int, bytes]], int, object]] = _no_socket
        self._tls: Tls | None = None
        self._reading: Callable[[int], None] = self._on_readable
        self._exchange: Exchange | None = None
        self._done: Done | None = None
        self._opened: Callable[[], None] | None = None
        self._connecting_since: Nanos = 0
        self._ready = False
        self._stamped = False
        self._answered = 0
        self._resent = False
        self._held_since: Nanos = 0
        self._outgoing = memoryview(b"")

    @property
    def ready(self) -> bool:
        """True if a request can be sent at once."""
        return self._ready and self._exchange is None

    @property
    def busy(self) -> bool:
        """True if an exchange is under way."""
        return self._exchange is not None

    @property
    def token_ns(self) -> Nanos:
        """When a check last found that a token had come; 0: none in the exchange under way."""
        return self._exchange.token_ns if self._exchange else 0

    def exchange(self, request: bytes) -> Exchange:
        """A fresh exchange for a request, to be given to `ask`."""
        return Exchange(request, self._limits.response_bytes)

    def open(self, opened: Callable[[], None] | None = None) -> None:
        """Connect ahead of the first request; `opened` is called when that has worked or failed."""
        self._opened = opened
        self._connect()

    def ask(self, exchange: Exchange, done: Done) -> None:
        """Send it; `done` is called when it has ended, whichever way."""
        self._exchange, self._done = exchange, done
        self._resent, self._held_since = False, 0
        if self._ready:
            self._send()
        elif self._socket is None:
            self._connect()

    def abort(self, error: ErrorClass, detail: str = "") -> None:
        """End the exchange under way, if there is one, and drop the connection."""
        self._drop()
        self._finish(error, detail)

    def check(self) -> None:
        """End what has passed a limit: the exchange under way, or the opening of the connection."""
        now, exchange = self._clock(), self._exchange
        if self._connecting_since:
            if (now - self._connecting_since) / NANOS_PER_SECOND > self._limits.connect_s:
                self._failed_to_connect(f"no connection within {self._limits.connect_s:g} s")
            return
        if exchange is None or not exchange.sent_ns:
            return
        exchange.look()
        if error := exchange.overdue(now, self._limits):
            self.abort(error, f"gave up {(now - exchange.sent_ns) / NANOS_PER_SECOND:.1f} s after sending")

    # Connecting

    def _connect(self) -> None:
        self._connecting_since = self._clock()
        try:
            self._socket = sock = socket.socket(self._target.family, socket.SOCK_STREAM)
            sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stamped = self._stamps.wanted and ask_for_stamps(sock)
            self._recvmsg = sock.recvmsg
            code = sock.connect_ex(self._target.sockaddr)
        except OSError as error:
            self._fail_soon(str(error))
            return
        if code and code not in _PENDING:
            self._fail_soon(_connect_error(code, self._target.address))
            return
        self._reactor.watch(sock.fileno(), self._on_connected, WRITE)

    def _on_connected(self, _: int) -> None:
        assert self._socket is not None
        if code := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._failed_to_connect(_connect_error(code, self._target.address))
            return
        if self._target.tls is None:
            self._become_ready(self._on_readable)
            return
        self._tls = Tls(self._target.tls, self._target.address.host)
        self._reactor.watch(self._socket.fileno(), self._on_handshake)
        self._on_handshake(0)

    def _on_handshake(self, events: int) -> None:
        assert self._socket is not None
        assert self._tls is not None
        try:
            done = self._tls.shake(self._receive()[0] if events else None)
            self._socket.sendall(self._tls.to_send())
        except BlockingIOError:
            return
        except (OSError, EOFError) as error:
            self._failed_to_connect(f"no TLS: {error}")
            return
        if done:
            self._become_ready(self._on_encrypted)

    def _become_ready(self, handler: Callable[[int], None]) -> None:
        assert self._socket is not None
        self._reading = handler
        self._reactor.watch(self._socket.fileno(), handler)
        self._connecting_since, self._ready, self._answered = 0, True, 0
        self._tell_opened()
        if self._exchange is not None and not self._exchange.ended:
            self._send()

    def _fail_soon(self, reason: str) -> None:
        """Fail from the reactor: who asks again at once when told must not do so deeper and deeper in the stack."""
        since = self._connecting_since
        self._reactor.at(0, lambda: self._failed_to_connect(reason) if self._connecting_since == since else None)

    def _failed_to_connect(self, reason: str) -> None:
        self._drop()
        if self._exchange is not None:
            now = self._clock()
            self._exchange.sent_ns = self._exchange.sent_ns or now
            self._finish("connect", reason)
        self._tell_opened()

    def _tell_opened(self) -> None:
        opened, self._opened = self._opened, None
        if opened:
            opened()

    # Sending

    def _send(self) -> None:
        """Stamp and write."""
        exchange, sock = self._exchange, self._socket
        assert exchange is not None
        assert sock is not None
        exchange.stamp_source = "kernel" if self._stamped else "loop"
        data = exchange.request if self._tls is None else self._tls.wrap(exchange.request)
        now = self._clock()
        exchange.sent_ns = self._held_since or now
        try:
            sent = sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(str(error))
            return
        self._outgoing = memoryview(data)[sent:]
        if self._outgoing:
            self._reactor.watch(sock.fileno(), self._on_writable, READ | WRITE)
        else:
            self._await_token()

    def _await_token(self) -> None:
        """Until the first token reads are urgent: one that waits for the next token gets the next token's time."""
        assert self._socket is not None
        self._reactor.watch(self._socket.fileno(), self._on_first, urgent=True)

    def _on_first(self, events: int) -> None:
        exchange, sock = self._exchange, self._socket
        self._reading(events)
        same = self._exchange is exchange and self._socket is sock is not None
        if same and exchange is not None and exchange.has_token() and sock is not None:
            self._reactor.watch(sock.fileno(), self._reading)

    def _on_writable(self, events: int) -> None:
        """The rest of a request that did not go out at once. A server may answer, or hang up, before it has it all."""
        assert self._socket is not None
        if events & ~WRITE:
            self._reading(events)
        if not self._ready or not events & WRITE:
            return
        with suppress(BlockingIOError):
            try:
                self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]
            except (BrokenPipeError, ConnectionResetError) as error:
                self._lost(str(error))
                return
        if not self._outgoing:
            self._await_token()

    # Receiving: the hot path

    def _receive(self) -> tuple[bytes, Nanos, Nanos]:
        """One read: bytes, when they came, and how long they had lain there. Raises OSError."""
        data, ancillary, _, _ = self._recvmsg(_READ_BYTES, ANCILLARY_BYTES)
        now = self._clock()
        if not ancillary:
            return data, now, 0
        # We ask for nothing but time stamps, so what comes beside the data is one.
        seconds, nanos = _unpack(ancillary[0][2])
        stamp = seconds * NANOS_PER_SECOND + nanos - self._stamps.offset
        return data, stamp, now - stamp

    def _on_readable(self, _: int) -> None:
        try:
            data, stamp, late = self._receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error))
            return
        if data:
            self._take(data, stamp, late)
        else:
            self._lost("")

    def _on_encrypted(self, _: int) -> None:
        """As `_on_readable` for TLS: a stamp is of the record's last ciphertext, so it is as good."""
        assert self._tls is not None
        try:
            data, stamp, late = self._receive()
            plain = self._tls.unwrap(data) if data else b""
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error))
            return
        if plain:
            self._take(plain, stamp, late)
        if not data or (self._tls and self._tls.closed):
            self._lost("")

    def _take(self, data: bytes, stamp: Nanos, late: Nanos) -> None:
        exchange = self._exchange
        if exchange is None:
            self._drop()
            return
        try:
            complete = exchange.receive(stamp, data, late)
        except MalformedResponse as error:
            self.abort("malformed", str(error))
            return
        if complete:
            self._answered += 1
            if not (exchange.head and exchange.head.keep_alive and exchange.exact):
                self._drop()
            self._finish(end_ns=stamp)

    # Ending

    def _lost(self, reason: str) -> None:
        """The connection has ended; `reason` is empty if the server closed it in order."""
        kept_alive = self._answered > 0
        self._drop()
        exchange = self._exchange
        if exchange is None:
            return
        head = exchange.head
        if not reason and head is not None and not head.chunked and head.length is None:
            self._finish()
        elif kept_alive and not self._resent and not exchange.size:
            self._resend(exchange)
        else:
            self._finish("cut", f"{reason or 'the server closed the connection'} after {exchange.size} bytes")

    def _resend(self, exchange: Exchange) -> None:
        held = self._clock() - exchange.sent_ns
        self._resent, self._held_since = True, exchange.sent_ns if held > _RACE_NS else 0
        exchange.restart("sent twice: the server had closed the kept-alive connection")
        self._connect()

    def _drop(self) -> None:
        if self._socket is not None:
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
        self._socket, self._tls, self._ready = None, None, False
        self._connecting_since, self._outgoing = 0, memoryview(b"")

    def _finish(self, error: ErrorClass = "", detail: str = "", end_ns: Nanos = 0) -> None:
        exchange, done = self._exchange, self._done
        self._exchange = self._done = None
        if exchange is not None:
            exchange.close(end_ns or self._clock(), error, detail)
            if done:
                done(exchange)


def _no_socket(size: int, ancillary_size: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, object]:
    raise ConnectionError(f"not connected: {size} + {ancillary_size} bytes were to be read")


def _connect_error(code: int, address: Address) -> str:
    return f"{os.strerror(code)} ({address.host}:{address.port})"
