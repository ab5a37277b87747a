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


class Event(NamedTuple):
    """One event: its type (empty: message), its data, and the offset in the body at which it was complete."""

    name: str
    data: bytes
    end: int


def decode_events(body: bytes, *, complete: bool = True) -> list[Event]:
    """All events that carry data. Comments (pings), ids and retry times are passed over.

    An event that no blank line ended counts only if the body is `complete`: servers forget the last one.
    """
    return _plain_events(body) or _any_events(body, complete=complete)


def _plain_events(body: bytes) -> list[Event]:
    """The events of a body that is nothing but `data: ...` and a blank line, as most are; empty if it is another."""
    if b"\r" in body or not body.endswith(b"\n\n"):
        return []
    events: list[Event] = []
    offset = 0
    for line in body[:-2].split(b"\n\n"):
        offset += len(line) + 2
        if not line.startswith(_DATA) or b"\n" in line:
            return []
        events.append(Event("", line[6:], offset))
    return events


def _any_events(body: bytes, *, complete: bool) -> list[Event]:
    events: list[Event] = []
    data: list[bytes] = []
    name = b""
    offset = len(_BOM) if body.startswith(_BOM) else 0
    for line in body[offset:].splitlines(keepends=True):
        offset += len(line)
        text = line.rstrip(b"\r\n")
        if len(text) == len(line) and not complete:
            break
        if not text:
            if data:
                events.append(Event(name.decode("utf-8", "replace"), b"\n".join(data), offset))
            data, name = [], b""
            continue
        field, _, value = text.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if data and complete:
        events.append(Event(name.decode("utf-8", "replace"), b"\n".join(data), offset))
    return events


def stamp_events(body: Body, events: Sequence[Event], stamps: Sequence[Nanos], lengths: Sequence[int]) -> list[Nanos]:
    """When each event was complete: the stamp of the read that brought its last byte.

    `stamps` and `lengths` are of the reads of the whole response, head included.
    """
    return arrival_times(body, (event.end for event in events), stamps, lengths)


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
