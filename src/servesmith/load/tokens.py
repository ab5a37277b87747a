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

from servesmith.measure.records import TOKEN_KINDS, TokenSource

_IS_TOKEN = tuple(kind in TOKEN_KINDS for kind in range(max(TOKEN_KINDS) + 8))


class Draft(NamedTuple):
    """What is known of one response's tokens. The lists are parallel, one entry an event."""

    kinds: list[int]
    texts: list[str]
    ids: list[int]
    """Token ids in it; -1: it has no such field."""
    running: list[int]
    """Output tokens so far by the server; -1: it did not say."""
    usage: int
    """Output tokens by the final usage; -1: none."""


class Counted(NamedTuple):
    """Tokens per event, their total (-1: unknown) and how they are known."""

    per_chunk: Sequence[float]
    total: int
    source: TokenSource


def by_server(draft: Draft) -> Counted | None:
    """What the server itself said per chunk, or one a chunk if its usage agrees; None if neither."""
    carriers = [place for place, kind in enumerate(draft.kinds) if _IS_TOKEN[kind]]
    if carriers and draft.ids[carriers[0]] >= 0 and all(draft.ids[place] >= 0 for place in carriers):
        per_chunk = tuple(float(max(count, 0)) for count in draft.ids)
        return Counted(per_chunk, draft.usage if draft.usage >= 0 else int(sum(per_chunk)), "ids")
    if carriers and draft.running[carriers[0]] >= 0 and all(draft.running[place] >= 0 for place in carriers):
        return _by_running_count(draft)
    if draft.usage >= 0 and draft.usage == len(carriers):
        return _one_per_chunk(draft)
    return None


def count_open(
    drafts: Sequence[Draft], whole: Sequence[TokenSource], count_text: Callable[[str], int] | None
) -> list[Counted]:
    """Count the responses of a load that `by_server` left open.

    `whole` is how the others were counted: if all of them had one token a chunk, so have these.
    """
    if whole and all(source == "one-per-chunk" for source in whole) and all(draft.usage < 0 for draft in drafts):
        return [_one_per_chunk(draft) for draft in drafts]
    if count_text is None:
        return [_unknown(draft) for draft in drafts]
    recount = cache(count_text)
    counts = [
        [recount(text) if _IS_TOKEN[kind] else 0 for text, kind in zip(draft.texts, draft.kinds, strict=True)]
        for draft in drafts
    ]
    scale = _scale(drafts, counts)
    return [_scaled(draft, own, scale) for draft, own in zip(drafts, counts, strict=True)]


def _by_running_count(draft: Draft) -> Counted:
    """Differences of the running count. What shows up after the last token chunk came with that chunk."""
    per_chunk: list[float] = []
    so_far = last = 0
    for position, (kind, running) in enumerate(zip(draft.kinds, draft.running, strict=True)):
        gained = max(0, running - so_far)
        so_far += gained
        if _IS_TOKEN[kind]:
            last = position
            per_chunk.append(float(gained))
        else:
            per_chunk.append(0.0)
            per_chunk[last] += gained
    per_chunk[last] += max(0, draft.usage - so_far)
    return Counted(tuple(per_chunk), max(draft.usage, so_far), "usage")


def _one_per_chunk(draft: Draft) -> Counted:
    per_chunk = tuple(1.0 if _IS_TOKEN[kind] else 0.0 for kind in draft.kinds)
    return Counted(per_chunk, int(sum(per_chunk)), "one-per-chunk")


def _unknown(draft: Draft) -> Counted:
    return Counted((0.0,) * len(draft.kinds), draft.usage, "none")


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
