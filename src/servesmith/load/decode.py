"""What came over the wire to request records, after the load. Whatever a server sends becomes a record.

Two steps, since the tokens of one request may hang on what the others showed: `read` makes a `Reading` of each
exchange, wherever it was received, and `settle` turns all readings of a load into records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from servesmith.load.events import Stream, read_events
from servesmith.load.http1 import Body, Head, MalformedResponse, dechunk
from servesmith.load.sse import decode_events, stamp_events
from servesmith.load.tokens import Counted, Draft, by_server, count_open
from servesmith.load.wire import Exchange
from servesmith.measure.records import ErrorClass, RequestRecord, TokenSource
from servesmith.units import Nanos

_EXCERPT = 300


@dataclass(frozen=True)
class Turn:
    """One request of a load: what was meant, by whom and when it was due, and what happened on the wire."""

    exchange: Exchange
    index: int
    stream: int = 0
    due_ns: Nanos = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    """What was meant; 0: the answer may end by itself."""


class Reading(msgspec.Struct):
    """A record whose tokens may still be open; then `draft` says what is known of them."""

    record: RequestRecord
    draft: Draft | None = None


def decode(
    turns: Sequence[Turn], *, count_text: Callable[[str], int] | None = None, keep_text: bool = False
) -> list[RequestRecord]:
    """One record a turn, in order. `count_text` counts tokens of a text where the server did not say."""
    return settle([read(turn, keep_text=keep_text) for turn in turns], count_text)


def settle(readings: Sequence[Reading], count_text: Callable[[str], int] | None = None) -> list[RequestRecord]:
    """The records of one load, those with open tokens counted by the text or by what the whole ones showed."""
    whole: list[TokenSource] = [r.record.token_source for r in readings if r.draft is None]
    drafts = [reading.draft for reading in readings if reading.draft is not None]
    counted = iter(count_open(drafts, whole, count_text))
    return [r.record if r.draft is None else _counted(r.record, next(counted)) for r in readings]


def read(turn: Turn, *, keep_text: bool = False) -> Reading:
    """What one exchange gave. Its raw bytes are not needed afterwards."""
    stream = _stream(turn.exchange)
    exchange = turn.exchange
    error, detail = _verdict(exchange, stream)
    usage = stream.usage
    record = RequestRecord(
        index=turn.index,
        stream=turn.stream,
        due_ns=turn.due_ns or exchange.sent_ns,
        sent_ns=exchange.sent_ns,
        end_ns=exchange.end_ns,
        chunk_ns=tuple(stream.stamps),
        chunk_kinds=tuple(stream.kinds),
        prompt_tokens_meant=turn.prompt_tokens,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached,
        output_tokens_meant=turn.output_tokens,
        finish=stream.finish,
        stamp_source=exchange.stamp_source,
        client_lag_ns=max(exchange.lates, default=0),
        error=error,
        detail=detail,
        text=stream.content() if keep_text else "",
    )
    draft = stream.draft()
    counted = by_server(draft)
    return Reading(record, draft) if counted is None else Reading(_counted(record, counted))


def _counted(record: RequestRecord, counted: Counted) -> RequestRecord:
    error, detail = record.error, record.detail
    if not error and (short := _shortfall(record, counted)):
        error, detail = "short-output", _join(detail, short)
    return msgspec.structs.replace(
        record,
        chunk_tokens=tuple(counted.per_chunk),
        output_tokens=counted.total,
        token_source=counted.source,
        error=error,
        detail=detail,
    )


def _verdict(exchange: Exchange, stream: Stream) -> tuple[ErrorClass, str]:
    """The class of the record, and in words why. What the server said outranks how the connection ended."""
    if stream.error and exchange.error in ("", "cut"):
        return stream.error, _join(exchange.detail, stream.detail)
    if exchange.error:
        return exchange.error, exchange.detail
    if not stream.done and not stream.finish:
        return "cut", _join(exchange.detail, "the stream ended without a finish_reason and without [DONE]")
    return "", exchange.detail


def _shortfall(record: RequestRecord, counted: Counted) -> str:
    meant, finish = record.output_tokens_meant, record.finish
    if not meant or counted.total >= meant:
        return ""
    if counted.total >= 0:
        return f"{counted.total} of {meant} output tokens, finish_reason {finish or 'none'}"
    return "" if finish == "length" else f"ended with finish_reason {finish or 'none'} and no usage"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _ends_with_last_chunk(raw: bytes, head: Head, body: Body) -> bool:
    """True if the chunk of size 0 follows the payload; a response that only looked complete has swallowed it."""
    end = body.raw_ends[-1] + 2 if body.data else head.body_start
    return raw[end : end + 1] == b"0"


def _stream(exchange: Exchange) -> Stream:
    head = exchange.head
    if head is None:
        return Stream()
    try:
        raw = exchange.buffer
        body = dechunk(raw, head)
    except MalformedResponse as error:
        return Stream(error="malformed", detail=str(error))
    if head.chunked and not exchange.error and not _ends_with_last_chunk(raw, head, body):
        return Stream(error="malformed", detail="the chunks do not add up to the response")
    excerpt = body.data[:_EXCERPT].decode("utf-8", "replace").strip()
    kind = head.headers.get("content-type", "")
    if head.status != 200:
        return Stream(error="http-status", detail=_join(f"HTTP {head.status}", excerpt))
    if (coding := head.headers.get("content-encoding", "identity").lower()) != "identity":
        return Stream(error="malformed", detail=f"the response is compressed ({coding}), which was not asked for")
    if not kind.startswith("text/event-stream"):
        return Stream(error="malformed", detail=_join(f"not an event stream but {kind or 'untyped'}", excerpt))
    events = decode_events(body.data, complete=not exchange.error)
    return read_events(events, stamp_events(body, events, exchange.stamps, exchange.lengths))
