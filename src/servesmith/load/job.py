"""What a worker is given and what it gives back. Plain data: it crosses a pipe between two processes."""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from servesmith.load.decode import Reading
from servesmith.load.http1 import Address
from servesmith.load.wire import Limits
from servesmith.units import Nanos

_LENGTH = struct.Struct("<Q")


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """One request, its bytes ready to be sent."""

    index: int
    request: bytes
    prompt_tokens: int = 0
    output_tokens: int = 0
    think_ns: Nanos = 0
    """Pause of the user before it, after the answer to the turn before."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """Requests of which each waits for the answer to the one before; mostly a single one."""

    turns: tuple[Ask, ...]
    due_ns: Nanos = 0
    """Open loop: when its first request is due, from the start of the load."""


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """Closed loop: one stream, which begins its next session when its last one has ended."""

    stream: int
    offset_ns: Nanos
    sessions: tuple[Session, ...]


class Job(msgspec.Struct, frozen=True, tag=True):
    """One worker's share of a load: lanes of a closed loop, or arrivals of an open one."""

    address: Address
    limits: Limits
    lanes: tuple[Lane, ...] = ()
    arrivals: tuple[Session, ...] = ()
    """In order of their due times."""
    connections: int = 1
    """Open loop: opened ahead. More are opened when all are busy, up to `most_in_flight`."""
    most_in_flight: int = 0
    """Open loop: a request that is due while so many are under way waits, or is dropped; 0: no bound."""
    drop: bool = False
    """Open loop: drop instead of waiting."""
    keep_text: bool = False
    kernel_stamps: bool = True


class Go(msgspec.Struct, frozen=True, tag=True):
    """The times of a load, in the monotonic clock that all processes of a machine share."""

    start_ns: Nanos
    opens_ns: Nanos
    closes_ns: Nanos
    """End of the window."""
    stop_ns: Nanos
    """When what is still in flight is cut off."""
    drain: bool = False
    """Open loop: end as soon as the last arrival has been answered."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the load now and tell what there is."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Connections have been opened, or could not be."""

    refused: int = 0


class Tick(msgspec.Struct, frozen=True, tag=True):
    """How far a worker is."""

    reads: int
    finished: int
    alive_ns: Nanos
    """When it last saw a token, or an end that the server brought about; 0: never."""


class Part(msgspec.Struct, frozen=True, tag=True):
    """Some of what a worker's share gave; many small ones, so that neither side holds everything twice."""

    readings: list[Reading]


class Report(msgspec.Struct, frozen=True, tag=True):
    """A worker's last word, after all parts."""

    lags_us: bytes
    """Own lag of every read inside the window, int32 microseconds."""
    lag_source: str
    """`kernel`: read minus arrival. `timer`: overrun of a timer, where the kernel does not stamp."""
    ran_out_ns: Nanos
    """When a lane found no further prompt; 0: never."""
    hot_cpu_s: float
    """CPU time of this process from start to end of the load, user and system."""
    all_cpu_s: float
    """The same, with connecting before and decoding after."""


Message = Job | Go | Stop | Ready | Tick | Part | Report

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One message with its length before it."""
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


def messages(stream: BinaryIO) -> Iterator[Message]:
    """Messages from a blocking stream until it ends, be it in the middle of one."""
    while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(head)
        body = stream.read(length)
        if len(body) < length:
            return
        yield _DECODER.decode(body)


class Inbox:
    """Messages out of bytes that come in pieces."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that these bytes complete."""
        self._held += data
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            end = _LENGTH.size + length
            if len(self._held) < end:
                return
            body = bytes(self._held[_LENGTH.size : end])
            del self._held[:end]
            yield _DECODER.decode(body)
