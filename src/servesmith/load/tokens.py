"""How many tokens each chunk of a stream carried, and how that is known. Pure.

A chunk is never taken for a token: with speculation one chunk carries several, and a character of several
tokens makes no chunk until it is whole. In order of preference: token ids in the stream, a running count in
the stream, the text counted again and scaled to the final usage, and one token a chunk only where the final
usage says that there were as many. A request that was cut off has no final usage; what the others of the
same load showed holds for it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from servesmith.measure.records import TOKEN_KINDS, ChunkKind, TokenSource
from servesmith.units import Nanos


class Piece(NamedTuple):
    """What one event carried."""

    stamp: Nanos
    kind: ChunkKind
    text: str = ""
    ids: int = -1
    """Token ids in it; -1: it has no such field."""
    running: int = -1
    """Output tokens so far by the server; -1: it did not say."""


class Draft(NamedTuple):
    """The events of one response and the output tokens of its final usage (-1: none)."""

    pieces: Sequence[Piece]
    usage: int


class Counted(NamedTuple):
    """Tokens per event, their total (-1: unknown) and how they are known."""

    per_chunk: tuple[float, ...]
    total: int
    source: TokenSource


def count_tokens(drafts: Sequence[Draft], count_text: Callable[[str], int] | None) -> list[Counted]:
    """Count every response of one load, the cut off ones by what the whole ones showed."""
    settled = [_by_server(draft) for draft in drafts]
    pairs = list(zip(drafts, settled, strict=True))
    whole = [counted for draft, counted in pairs if draft.usage >= 0]
    if whole and all(counted is not None and counted.source == "one-per-chunk" for counted in whole):
        return [counted or _one_per_chunk(draft) for draft, counted in pairs]
    if count_text is None:
        return [counted or _unknown(draft) for draft, counted in pairs]
    recount = cache(count_text)
    open_ones = [draft for draft, counted in pairs if counted is None]
    counts = [[recount(p.text) if p.kind in TOKEN_KINDS else 0 for p in draft.pieces] for draft in open_ones]
    scale = _scale(open_ones, counts)
    scaled = iter([_scaled(draft, own, scale) for draft, own in zip(open_ones, counts, strict=True)])
    return [counted or next(scaled) for counted in settled]


def _by_server(draft: Draft) -> Counted | None:
    """What the server itself said per chunk, or one a chunk if its usage agrees; None if neither."""
    pieces = draft.pieces
    carriers = [p for p in pieces if p.kind in TOKEN_KINDS]
    if carriers and all(p.ids >= 0 for p in carriers):
        per_chunk = tuple(float(max(p.ids, 0)) for p in pieces)
        return Counted(per_chunk, draft.usage if draft.usage >= 0 else int(sum(per_chunk)), "ids")
    if carriers and all(p.running >= 0 for p in carriers):
        return _by_running_count(draft)
    if draft.usage >= 0 and draft.usage == len(carriers):
        return _one_per_chunk(draft)
    return None


def _by_running_count(draft: Draft) -> Counted:
    """Differences of the running count. What shows up after the last token chunk came with that chunk."""
    per_chunk: list[float] = []
    so_far = last = 0
    for position, piece in enumerate(draft.pieces):
        gained = max(0, piece.running - so_far)
        so_far += gained
        if piece.kind in TOKEN_KINDS:
            last = position
            per_chunk.append(float(gained))
        else:
            per_chunk.append(0.0)
            per_chunk[last] += gained
    per_chunk[last] += max(0, draft.usage - so_far)
    return Counted(tuple(per_chunk), max(draft.usage, so_far), "usage")


def _one_per_chunk(draft: Draft) -> Counted:
    per_chunk = tuple(float(p.kind in TOKEN_KINDS) for p in draft.pieces)
    return Counted(per_chunk, int(sum(per_chunk)), "one-per-chunk")


def _unknown(draft: Draft) -> Counted:
    return Counted((0.0,) * len(draft.pieces), draft.usage, "none")


def _scale(drafts: Sequence[Draft], counts: Sequence[Sequence[int]]) -> float:
    """Tokens by usage for each token counted in the text, over all responses with a usage; 1.0 without any."""
    pairs = [(d.usage, sum(own)) for d, own in zip(drafts, counts, strict=True) if d.usage >= 0]
    said, seen = sum(usage for usage, _ in pairs), sum(own for _, own in pairs)
    return said / seen if seen and said else 1.0


def _scaled(draft: Draft, counts: Sequence[int], scale: float) -> Counted:
    seen = sum(counts)
    if not seen:
        return _unknown(draft)
    factor = draft.usage / seen if draft.usage >= 0 else scale
    total = draft.usage if draft.usage >= 0 else round(seen * scale)
    return Counted(tuple(count * factor for count in counts), total, "retokenised")
