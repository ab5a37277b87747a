"""TLS in memory, so that the bytes are read from the socket itself and keep the kernel's stamps. Pure of sockets."""

import ssl

_READ_BYTES = 65_536


class Tls:
    """One TLS session between ciphertext and plain text."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.closed = False
        """True once the other side has said that nothing more comes."""

    def shake(self, data: bytes | None) -> bool:
        """Go on with the handshake after more ciphertext (None: begin); True when it is done.

        Raises ssl.SSLError (an OSError) if the certificate or anything else is wrong, EOFError if the peer hung up.
        """
        if data == b"":
            raise EOFError("the server closed the connection in the handshake")
        if data:
            self._incoming.write(data)
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def to_send(self) -> bytes:
        """Ciphertext that waits to be sent."""
        return self._outgoing.read()

    def wrap(self, plain: bytes) -> bytes:
        """Ciphertext of what is to be sent."""
        self._session.write(plain)
        return self._outgoing.read()

    def unwrap(self, data: bytes) -> bytes:
        """Plain text of what came; empty while a record is incomplete. Raises ssl.SSLError if it is broken."""
        self._incoming.write(data)
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._session.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.closed = True
                break
            pieces.append(piece)
        return b"".join(pieces)
