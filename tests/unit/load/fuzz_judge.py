"""Feeds a case to the real decoders and to the slow ones; says what differs."""

from bisect import bisect_left
from itertools import accumulate

import fuzz_reference as slow
from fuzz_streams import Case

from servesmith.load.decode import Turn, read, settle
from servesmith.load.events import Stream, read_events
from servesmith.load.http1 import Body, MalformedResponse, dechunk, parse_head
from servesmith.load.sse import decode_events, stamp_events
from servesmith.load.wire import Exchange

LIMIT = 1 << 24


class Difference(AssertionError):
    """What one decoder says and the other does not."""


def same(what: str, real: object, expected: object) -> None:
    if real != expected:
        raise Difference(f"{what}: {real!r}, but by the slow decoder {expected!r}")


def judge(case: Case) -> int:
    """Compare everything; the number of chunks that were compared. Raises Difference."""
    exchange, fed, malformed = _feed(case)
    told = slow.response(case.raw)
    edges = [0, *accumulate(map(len, case.reads))]
    _judge_end(exchange, told, edges[fed - 1], edges[fed], malformed=malformed)
    raw = case.raw[: edges[fed]]
    if not exchange.ended:
        exchange.close(10**9, "malformed" if malformed else "cut")
    record = settle([read(Turn(exchange, 0), keep_text=True)])[0]
    if exchange.ended and not exchange.error and _swallowed(told, edges[fed]):
        same("a swallowed end", record.error, "malformed")
        return 0
    if not 0 <= told.head_end <= len(raw):
        return 0
    head = parse_head(raw)
    assert head is not None
    same("head", (head.status, head.headers, head.body_start), (told.status, told.headers, told.head_end))
    broken = told.broken is not None and told.broken <= len(raw)
    try:
        body = dechunk(raw, head)
    except MalformedResponse:
        same("a broken chunk", True, broken)
        return 0
    same("a broken chunk", False, broken)
    same("body", body.data, bytes(told.body[: bisect_left(told.raw_offsets, len(raw))]))
    stream = _judge_events(exchange, told, body, complete=not exchange.error)
    plain = head.headers.get("content-type", "").startswith("text/event-stream")
    if head.status == 200 and plain and head.headers.get("content-encoding", "identity") == "identity":
        same("times of the record", list(record.chunk_ns), stream.stamps)
        same("kinds of the record", list(record.chunk_kinds), stream.kinds)
        same("text of the record", record.text, stream.content())
    if len(raw) % 4 == 0:
        _judge_events(exchange, told, body, complete=bool(exchange.error))
    return len(stream.kinds)


def _judge_events(exchange: Exchange, told: slow.Response, body: Body, *, complete: bool) -> Stream:
    events = decode_events(body.data, complete=complete)
    expected = slow.events(body.data, complete=complete)
    same("events", list(zip(*events, strict=True)), expected)
    stamps = stamp_events(body, events, exchange.stamps, exchange.lengths)
    same("stamps", stamps, [_arrival(exchange, told, end) for _, _, end in expected])
    stream = read_events(events, stamps)
    _judge_stream(stream, slow.columns([(name, data) for name, data, _ in expected]))
    return stream


def _feed(case: Case) -> tuple[Exchange, int, bool]:
    """As a channel does: read after read until it is complete or broken. Each read has its number as its stamp."""
    exchange = Exchange(b"", LIMIT)
    exchange.sent_ns = 1
    for number, data in enumerate(case.reads, 1):
        try:
            complete = exchange.receive(number, data)
        except MalformedResponse:
            return exchange, number, True
        if complete:
            exchange.close(number)
            return exchange, number, False
    return exchange, len(case.reads), False


def _swallowed(told: slow.Response, now: int) -> bool:
    """The end that every OpenAI stream has came, but as the payload of a chunk whose size was told too large."""
    return told.end is None or told.end > now


def _judge_end(exchange: Exchange, told: slow.Response, before: int, now: int, *, malformed: bool) -> None:
    """Complete with the very read that brought the end, never before, and never broken without reason.

    One thing is left open: surplus after the end of a chunked response, in the same read, may hide it.
    """
    if malformed:
        same("broken", told.broken is not None and told.broken <= now, True)
    elif exchange.ended and not _swallowed(told, now):
        same("complete", told.end is not None and told.end <= now, True)
        same("complete before", told.end == before, False)
        same("exact", exchange.exact, told.end == now)
    elif told.end == now:
        raise Difference("the response is complete, and that was not seen")


def _arrival(exchange: Exchange, told: slow.Response, end: int) -> int:
    """The number of the read that brought body byte `end - 1`."""
    offset = told.raw_offsets[end - 1]
    for number, edge in zip(exchange.stamps, accumulate(exchange.lengths), strict=True):
        if edge > offset:
            return number
    raise Difference(f"body byte {end - 1} came with no read")


def _judge_stream(stream: Stream, told: slow.Columns) -> None:
    same("kinds", stream.kinds, told.kinds)
    for text, expected in zip(stream.texts, told.texts, strict=True):
        if isinstance(expected, list):
            if repr(slow.BAD_BYTE)[1:-1] not in str(expected):
                same("tool calls", slow.same_calls(text, expected), True)
        else:
            same("text", text, expected)
    same("token ids", stream.ids, told.ids)
    same("running counts", stream.running, told.running)
    usage = stream.usage
    same("usage", (usage.prompt_tokens, usage.completion_tokens, usage.cached),
         (told.prompt_tokens, told.completion_tokens, told.cached))  # fmt: skip
    same("ending", (stream.finish, stream.done, stream.error), (told.finish, told.done, told.error))
    if told.error == "server-error-event":
        same("detail", stream.detail, told.detail)
