"""What was asked, as a hash: two loads that asked the same can be shown to have. Pure.

It lives here and not with the workload, since what counts is what was sent, which only records tell: in a closed loop
the faster server is asked more. So loads are compared request by request over the indexes that both reached.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from servesmith.measure.records import RequestRecord

Asked = tuple[int, int, str]
"""Prompt tokens and output tokens that were meant, and the digest of path and body (empty: not kept)."""


class SameAsked(msgspec.Struct, frozen=True):
    """How far two loads asked the same."""

    common: int
    """Requests, by index, that both sent."""
    differing: tuple[int, ...]
    """Indexes at which they asked something else; empty: all that both sent is equal."""
    only_a: int
    only_b: int
    by_bytes: bool
    """True if the bytes of every common request were compared; False: of some only the lengths are known."""

    @property
    def same(self) -> bool:
        """Everything that both sent was the same, and there was something."""
        return self.common > 0 and not self.differing


def asked_of(records: Sequence[RequestRecord]) -> dict[int, Asked]:
    """What was asked, by index; a request that was due and never sent was not asked."""
    return {
        record.index: (record.prompt_tokens_meant, record.output_tokens_meant, record.asked)
        for record in records
        if record.error != "dropped"
    }


def workload_hash(records: Sequence[RequestRecord]) -> str:
    """SHA-256 over everything that was sent, in the order of the indexes, first 16 hex digits. Times, answers and the
    order in which requests were sent do not count."""
    lines = "".join(f"{index} {meant[0]} {meant[1]} {meant[2]}\n" for index, meant in sorted(asked_of(records).items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def same_asked(a: Sequence[RequestRecord], b: Sequence[RequestRecord]) -> SameAsked:
    """Compare two loads by what they both sent."""
    mine, theirs = asked_of(a), asked_of(b)
    common = sorted(mine.keys() & theirs.keys())
    return SameAsked(
        common=len(common),
        differing=tuple(index for index in common if mine[index] != theirs[index]),
        only_a=len(mine) - len(common),
        only_b=len(theirs) - len(common),
        by_bytes=bool(common) and all(mine[index][2] and theirs[index][2] for index in common),
    )
