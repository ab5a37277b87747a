"""Server-sent events out of a finished body, and when each arrived. Pure; never called while a stream runs.

Format: WHATWG HTML, section 9.2.6 "Interpreting an event stream".
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from servesmith.load.http1 import Body
from servesmith.units import Nanos

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_BETWEEN = b"\n\ndata: "
_END = (b"",)
"""The line that ends the last event of a complete body whose server forgot to."""


class Events(NamedTuple):
    """The events of a body; the columns are parallel."""

    names: Sequence[str]
    """Type of each; empty: message."""
    data: Sequence[bytes]
    ends: Sequence[int]
    """The offset in the body at which each was complete."""


def decode_events(body: bytes, *, complete: bool = True) -> Events:
    """All events that carry data. Comments (pings), ids and retry times are passed over.

    An event that no blank line ended counts only if the body is `complete`: servers forget the last one.
    """
    return _plain_events(body) or _any_events(body, complete=complete)


def _plain_events(body: bytes) -> Events | None:
    """The events of a body that is nothing but `data: ...` and a blank line, as most are; None if it is another.

    Cut at what stands between two such events, it has no line end left but those of the cuts, two for each event.
    """
    if not body.startswith(_DATA) or not body.endswith(b"\n\n") or b"\r" in body:
        return None
    data = body[len(_DATA) : -2].split(_BETWEEN)
    if body.count(b"\n") != 2 * len(data):
        return None
    ends = [end + len(_BETWEEN) * number for number, end in enumerate(accumulate(map(len, data)), 1)]
    return Events([""] * len(data), data, ends)


def _any_events(body: bytes, *, complete: bool) -> Events:
    names: list[str] = []
    datas: list[bytes] = []
    ends: list[int] = []
    data: list[bytes] = []
    name = b""
    offset = len(_BOM) if body.startswith(_BOM) else 0
    for line in [*body[offset:].splitlines(keepends=True), *_END[:complete]]:
        offset += len(line)
        text = line.rstrip(b"\r\n")
        if len(text) == len(line) and line and not complete:
            break
        if not text:
            if data:
                names.append(name.decode("utf-8", "replace"))
                datas.append(b"\n".join(data))
                ends.append(offset)
            data, name = [], b""
            continue
        field, _, value = text.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return Events(names, datas, ends)


def stamp_events(body: Body, events: Events, stamps: Sequence[Nanos], lengths: Sequence[int]) -> list[Nanos]:
    """When each event was complete: the stamp of the read that brought its last byte.

    `stamps` and `lengths` are of the reads of the whole response, head included.
    """
    return arrival_times(body, events.ends, stamps, lengths)


def arrival_times(body: Body, ends: Iterable[int], stamps: Sequence[Nanos], lengths: Sequence[int]) -> list[Nanos]:
    """When each body offset in `ends` (rising) had arrived. One walk over reads and chunks along with the offsets."""
    read_ends = list(accumulate(lengths))
    span_ends, raw_ends = body.ends, body.raw_ends
    times: list[Nanos] = []
    span = read = 0
    for end in ends:
        while span_ends[span] < end:
            span += 1
        raw = raw_ends[span] - (span_ends[span] - end)
        while read_ends[read] < raw:
            read += 1
        times.append(stamps[read])
    return times
