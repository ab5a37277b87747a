"""The records of one load as columns, built once: what every number is computed from. Pure.

A million chunks take 17 MB here. Columns of requests have one entry a record, in their order; columns of chunks hold
the chunks of all records one behind the other, those of record r at `offsets[r]:offsets[r + 1]`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from servesmith.measure.records import TOKEN_KINDS, ChunkKind, RequestRecord, Window
from servesmith.units import Nanos

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

INT_COLUMNS = ("index", "stream", "due_ns", "sent_ns", "end_ns", "prompt_tokens_meant", "prompt_tokens",
               "cached_tokens", "output_tokens_meant", "output_tokens", "client_lag_ns")  # fmt: skip
TEXT_COLUMNS = ("asked", "finish", "token_source", "stamp_source", "error", "detail", "text")
_IS_TOKEN: Mask = np.array([kind in TOKEN_KINDS for kind in range(256)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """One load in columns. `ints` and `texts` are by field of `RequestRecord`, one entry a request each."""

    ints: dict[str, Ints]
    texts: dict[str, Sequence[str]]
    offsets: Ints
    chunk_ns: Ints
    chunk_tokens: Floats
    chunk_kinds: NDArray[np.int8]

    def __len__(self) -> int:
        """Requests."""
        return len(self.offsets) - 1

    @property
    def due_ns(self) -> Ints:
        """When each request was due."""
        return self.ints["due_ns"]

    @property
    def sent_ns(self) -> Ints:
        """When each was sent."""
        return self.ints["sent_ns"]

    @property
    def end_ns(self) -> Ints:
        """When each ended."""
        return self.ints["end_ns"]

    @property
    def output_tokens(self) -> Ints:
        """Output tokens of each; -1: unknown."""
        return self.ints["output_tokens"]

    def having(self, column: str, *values: str) -> Mask:
        """Requests whose text column is one of these."""
        return np.fromiter((text in values for text in self.texts[column]), np.bool_, len(self))

    def counted(self, column: str, which: Mask) -> Counter[str]:
        """How often each text of a column occurs among these requests."""
        return Counter(compress(self.texts[column], which.tolist()))

    @cached_property
    def ok(self) -> Mask:
        """Requests that ran to their end as asked."""
        return self.having("error", "")

    @cached_property
    def cancelled(self) -> Mask:
        """Requests in flight when the load ended."""
        return self.having("error", "cancelled")

    @cached_property
    def dropped(self) -> Mask:
        """Requests that were due and never sent."""
        return self.having("error", "dropped")

    @cached_property
    def is_token(self) -> Mask:
        """Chunks that carry tokens."""
        return _IS_TOKEN[self.chunk_kinds.view(np.uint8)]

    @cached_property
    def owner(self) -> NDArray[np.int32]:
        """Request of each chunk."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def first_token(self) -> "Events":
        """The first chunk of each request that carries a token."""
        return self.first(self.is_token)

    @cached_property
    def last_token_ns(self) -> Ints:
        """Arrival of the last token chunk; means nothing where `first_token.there` is false."""
        places = np.flatnonzero(self.is_token)
        after = np.searchsorted(places, self.offsets[1:])
        return _taken(self.chunk_ns, places, after - 1)

    def first(self, chunks: Mask) -> "Events":
        """The first of these chunks in each request."""
        places = np.flatnonzero(chunks)
        at = np.searchsorted(places, self.offsets[:-1])
        there = at < np.searchsorted(places, self.offsets[1:])
        return Events(there, _taken(self.chunk_ns, places, at), _taken(self.chunk_kinds, places, at))

    def of_kind(self, kind: ChunkKind) -> Mask:
        """Chunks of one kind."""
        return self.chunk_kinds == kind

    def tokens_between(self, start: Nanos, end: Nanos) -> float:
        """Output tokens whose chunk arrived in [start, end). Additive: [a, b) and [b, c) make [a, c)."""
        return exact_sum(self.chunk_tokens[(self.chunk_ns >= start) & (self.chunk_ns < end)])


@dataclass(frozen=True, eq=False)
class Events:
    """One chunk of each request: whether there is one, its arrival, its kind. Only what is `there` means anything."""

    there: Mask
    at_ns: Ints
    kind: NDArray[np.int8]

    def inside(self, window: Window) -> Mask:
        """Requests in which it is there and lies in the window."""
        return self.there & inside(self.at_ns, window)


def frame_of(records: Sequence[RequestRecord]) -> Frame:
    """Columns of records, in their order. Raises ValueError if the chunk columns of one are of different lengths."""
    count = len(records)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter((len(r.chunk_ns) for r in records), np.int64, count), out=offsets[1:])
    for record in records:
        if not len(record.chunk_ns) == len(record.chunk_tokens) == len(record.chunk_kinds):
            raise ValueError(f"request {record.index}: stamps, tokens and kinds of its chunks differ in number")
    total = int(offsets[-1])
    return Frame(
        ints={
            name: np.fromiter((getattr(record, name) for record in records), np.int64, count) for name in INT_COLUMNS
        },
        texts={name: [getattr(record, name) for record in records] for name in TEXT_COLUMNS},
        offsets=offsets,
        chunk_ns=_flat((record.chunk_ns for record in records), np.int64, total),
        chunk_tokens=_flat((record.chunk_tokens for record in records), np.float64, total),
        chunk_kinds=_flat((record.chunk_kinds for record in records), np.int8, total),
    )


def records_of(frame: Frame) -> tuple[RequestRecord, ...]:
    """The records again."""
    stamps, kinds = frame.chunk_ns.tolist(), frame.chunk_kinds.tolist()
    tokens: list[float] = frame.chunk_tokens.tolist()
    edges = frame.offsets.tolist()
    columns: dict[str, Sequence[Any]] = {name: column.tolist() for name, column in frame.ints.items()}
    columns |= frame.texts
    return tuple(
        RequestRecord(
            chunk_ns=tuple(stamps[start:end]),
            chunk_tokens=tuple(tokens[start:end]),
            chunk_kinds=tuple(kinds[start:end]),
            **dict(zip(columns, row, strict=True)),
        )
        for (start, end), row in zip(pairwise(edges), zip(*columns.values(), strict=True), strict=True)
    )


def inside(stamps: Ints, window: Window) -> Mask:
    """Which stamps lie in the window, whose end is open."""
    return (stamps >= window.start_ns) & (stamps < window.end_ns)


def exact_sum(values: Floats) -> float:
    """The sum, rounded once: whole numbers add up without error anyhow, others by `math.fsum` (Shewchuk 1997), so that
    it does not hang on the order or the machine."""
    if bool((values == np.floor(values)).all()):
        return float(values.sum())
    return math.fsum(values.tolist())


def _flat(parts: Iterable[Sequence[Any]], kind: Any, total: int) -> Any:  # noqa: ANN401 - a numpy type and its array
    return np.fromiter(chain.from_iterable(parts), kind, total)


def _taken(values: Any, places: NDArray[np.intp], at: NDArray[np.intp]) -> Any:  # noqa: ANN401 - arrays of one type
    """`values[places[at]]`, zero where `at` points beyond."""
    if not len(places):
        return np.zeros(len(at), values.dtype)
    return values[places[np.clip(at, 0, len(places) - 1)]]
