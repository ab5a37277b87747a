"""Server-sent events out of a finished body, and when each arrived. Pure; never called while a stream runs.

Format: WHATWG HTML, section 9.2.6 "Interpreting an event stream".
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from servesmith.load.http1 import Body
from servesmith.units import Nanos

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its type (empty: message), its data, and the offset in the body at which it was complete."""

    name: str
    data: bytes
    end: int


def decode_events(body: bytes, *, complete: bool = True) -> list[Event]:
    """All events that carry data. Comments (pings), ids and retry times are passed over.

    An event that no blank line ended counts only if the body is `complete`: servers forget the last one.
    """
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


def arrival_times(body: Body, ends: Iterable[int], stamps: Sequence[Nanos], lengths: Sequence[int]) -> list[Nanos]:
    """When each body offset in `ends` (rising) had arrived: the stamp of the read that brought its last byte.

    `stamps` and `lengths` are of the reads of the whole response, head included.
    """
    read_ends = list(accumulate(lengths))
    times: list[Nanos] = []
    for end in ends:
        span = bisect_left(body.ends, end)
        times.append(stamps[bisect_left(read_ends, body.raw_offset(end, span))])
    return times
