"""The noun of measuring: what happened to one request. Raw first; every number is derived from these."""

from enum import IntEnum
from typing import Literal

import msgspec

from servesmith.units import Nanos


class ChunkKind(IntEnum):
    """What a chunk of the stream carried. Only the middle three carry tokens."""

    ROLE = 0
    CONTENT = 1
    REASONING = 2
    TOOL = 3
    USAGE = 4
    OTHER = 5


TOKEN_KINDS = frozenset({ChunkKind.CONTENT, ChunkKind.REASONING, ChunkKind.TOOL})

TokenSource = Literal["ids", "usage", "retokenised", "one-per-chunk", "none"]
"""How tokens per chunk were known. `one-per-chunk` only where the final usage equals the chunk count."""

ErrorClass = Literal[
    "",
    "connect",
    "http-status",
    "timeout-first-token",
    "timeout-idle",
    "timeout-total",
    "cut",
    "malformed",
    "server-error-event",
    "short-output",
    "cancelled",
    "dropped",
]
"""Empty: the request succeeded. `cancelled`: still in flight when the load ended, not a failure. `dropped`: due in an
open loop and never sent."""


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request: four times (due, sent, chunks, end), what was meant and what came.

    All times are nanoseconds of one monotonic clock; `chunk_ns`, `chunk_tokens` and `chunk_kinds` are
    parallel (one entry per SSE data event but `[DONE]`, in order of arrival).
    """

    index: int
    stream: int
    due_ns: Nanos
    sent_ns: Nanos
    end_ns: Nanos
    asked: str = ""  # what was sent: first 16 hex digits of the SHA-256 of path and body; empty: not kept
    chunk_ns: tuple[Nanos, ...] = ()
    chunk_tokens: tuple[float, ...] = ()
    chunk_kinds: tuple[int, ...] = ()
    prompt_tokens_meant: int = 0
    prompt_tokens: int = -1  # by the server's usage; -1: it did not say
    cached_tokens: int = -1  # prompt tokens served from the prefix cache; -1: it did not say
    output_tokens_meant: int = 0
    output_tokens: int = -1  # by the server's usage, else counted; -1: unknown
    finish: str = ""
    token_source: TokenSource = "none"
    stamp_source: Literal["kernel", "loop"] = "loop"
    client_lag_ns: Nanos = (
        0  # longest that a read of it lay there before the client took it; 0: the kernel did not stamp
    )
    error: ErrorClass = ""
    detail: str = ""
    text: str = ""

    @property
    def ok(self) -> bool:
        """True if the request ran to its end as asked."""
        return self.error == ""

    @property
    def first_token_ns(self) -> Nanos | None:
        """Arrival of the first chunk that carries a token; None if there was none."""
        for stamp, kind in zip(self.chunk_ns, self.chunk_kinds, strict=True):
            if kind in TOKEN_KINDS:
                return stamp
        return None

    @property
    def last_token_ns(self) -> Nanos | None:
        """Arrival of the last chunk that carries a token; None if there was none."""
        for stamp, kind in zip(reversed(self.chunk_ns), reversed(self.chunk_kinds), strict=True):
            if kind in TOKEN_KINDS:
                return stamp
        return None


class Metric(msgspec.Struct, frozen=True):
    """A number that carries its doubts."""

    value: float
    unit: str
    better: Literal["higher", "lower"]
    doubts: tuple[str, ...] = ()
    interval: tuple[float, float] | None = None
    """95 % interval over the requests of this one start, as if they were independent: how well this start was seen,
    which is less than how well the recipe is known. None: there is none."""


class Window(msgspec.Struct, frozen=True):
    """The measured span of a load, in the clock of the records."""

    start_ns: Nanos
    end_ns: Nanos

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.end_ns - self.start_ns) / 1e9
