"""What came over the wire to request records, after the load. Whatever a server sends becomes a record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from servesmith.load.http1 import MalformedResponse, dechunk
from servesmith.load.sse import arrival_times, decode_events
from servesmith.load.tokens import Counted, Draft, Piece, count_tokens
from servesmith.load.wire import Exchange
from servesmith.measure.records import ChunkKind, ErrorClass, RequestRecord
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


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = -1
    completion_tokens: int = -1
    prompt_tokens_details: _Cached | None = None


class _Timings(msgspec.Struct):
    predicted_n: int = -1


class _Message(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    timings: _Timings | None = None
    """llama.cpp, on request with every chunk: output tokens so far."""
    error: Any = None


_DECODER = msgspec.json.Decoder(_Message)


@dataclass
class _Stream:
    """What the events of one response said."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    usage: _Usage = field(default_factory=_Usage)
    finish: str = ""
    running: int = -1
    done: bool = False
    error: ErrorClass = ""
    detail: str = ""


def decode(
    turns: Sequence[Turn], *, count_text: Callable[[str], int] | None = None, keep_text: bool = False
) -> list[RequestRecord]:
    """One record a turn, in order. `count_text` counts tokens of a text where the server did not say."""
    streams = [_read(turn.exchange) for turn in turns]
    drafts = [Draft(stream.pieces, stream.usage.completion_tokens) for stream in streams]
    counted = count_tokens(drafts, count_text)
    return [
        _record(turn, stream, tokens, keep_text=keep_text)
        for turn, stream, tokens in zip(turns, streams, counted, strict=True)
    ]


def _record(turn: Turn, stream: _Stream, counted: Counted, *, keep_text: bool) -> RequestRecord:
    exchange = turn.exchange
    error, detail = _verdict(turn, stream, counted)
    cached = stream.usage.prompt_tokens_details
    return RequestRecord(
        index=turn.index,
        stream=turn.stream,
        due_ns=turn.due_ns or exchange.sent_ns,
        sent_ns=exchange.sent_ns,
        end_ns=exchange.end_ns,
        chunk_ns=tuple(piece.stamp for piece in stream.pieces),
        chunk_tokens=counted.per_chunk,
        chunk_kinds=tuple(int(piece.kind) for piece in stream.pieces),
        prompt_tokens_meant=turn.prompt_tokens,
        prompt_tokens=stream.usage.prompt_tokens,
        cached_tokens=-1 if cached is None or cached.cached_tokens is None else cached.cached_tokens,
        output_tokens_meant=turn.output_tokens,
        output_tokens=counted.total,
        finish=stream.finish,
        token_source=counted.source,
        stamp_source=exchange.stamp_source,
        error=error,
        detail=detail,
        text="".join(p.text for p in stream.pieces if p.kind is ChunkKind.CONTENT) if keep_text else "",
    )


def _verdict(turn: Turn, stream: _Stream, counted: Counted) -> tuple[ErrorClass, str]:
    """The class of the record, and in words why. What the server said outranks how the connection ended."""
    exchange = turn.exchange
    if stream.error and exchange.error in ("", "cut"):
        return stream.error, _join(exchange.detail, stream.detail)
    if exchange.error:
        return exchange.error, exchange.detail
    if not stream.done and not stream.finish:
        return "cut", _join(exchange.detail, "the stream ended without a finish_reason and without [DONE]")
    short = _shortfall(turn.output_tokens, stream, counted)
    return ("short-output", _join(exchange.detail, short)) if short else ("", exchange.detail)


def _shortfall(meant: int, stream: _Stream, counted: Counted) -> str:
    if not meant or counted.total >= meant:
        return ""
    if counted.total >= 0:
        return f"{counted.total} of {meant} output tokens, finish_reason {stream.finish or 'none'}"
    return "" if stream.finish == "length" else f"ended with finish_reason {stream.finish or 'none'} and no usage"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _read(exchange: Exchange) -> _Stream:
    head = exchange.head
    if head is None:
        return _Stream()
    try:
        body = dechunk(exchange.buffer, head)
    except MalformedResponse as error:
        return _Stream(error="malformed", detail=str(error))
    excerpt = body.data[:_EXCERPT].decode("utf-8", "replace").strip()
    kind = head.headers.get("content-type", "")
    if head.status != 200:
        return _Stream(error="http-status", detail=_join(f"HTTP {head.status}", excerpt))
    if (coding := head.headers.get("content-encoding", "identity").lower()) != "identity":
        return _Stream(error="malformed", detail=f"the response is compressed ({coding}), which was not asked for")
    if not kind.startswith("text/event-stream"):
        return _Stream(error="malformed", detail=_join(f"not an event stream but {kind or 'untyped'}", excerpt))
    events = decode_events(body.data, complete=not exchange.error)
    stamps = arrival_times(body, [event.end for event in events], exchange.stamps, exchange.lengths)
    stream = _Stream()
    for event, stamp in zip(events, stamps, strict=True):
        _take(stream, event.name, event.data, stamp)
    return stream


def _take(stream: _Stream, name: str, data: bytes, stamp: Nanos) -> None:
    """Add one event to what is known of a stream. The first error stands."""
    if data.strip() == b"[DONE]":
        stream.done = True
        return
    excerpt = data[:_EXCERPT].decode("utf-8", "replace")
    try:
        message = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not stream.error:
            stream.error = "server-error-event" if name == "error" else "malformed"
            stream.detail = excerpt if name == "error" else f"{error}: {excerpt}"
        stream.pieces.append(Piece(stamp, ChunkKind.OTHER))
        return
    if (message.error is not None or name == "error") and not stream.error:
        stream.error, stream.detail = "server-error-event", excerpt
    if message.usage is not None:
        stream.usage = message.usage
    choice = message.choices[0] if message.choices else _Choice()
    stream.finish = choice.finish_reason or stream.finish
    running = (
        message.usage.completion_tokens if message.usage else message.timings.predicted_n if message.timings else -1
    )
    # A character of several tokens makes chunks without text; only the running count shows their tokens. A count that
    # comes for the first time with the end is the final usage and shows nothing.
    unseen = bool(message.choices) and running > max(stream.running, 0) and (stream.running >= 0 or not stream.finish)
    stream.running = max(stream.running, running)
    stream.pieces.append(_piece(message, choice, stamp, running, unseen=unseen))


def _piece(message: _Message, choice: _Choice, stamp: Nanos, running: int, *, unseen: bool) -> Piece:
    delta = choice.delta or _Delta()
    reasoning = delta.reasoning_content or delta.reasoning or ""
    content = delta.content or choice.text or ""
    tool = b"".join(bytes(call) for call in delta.tool_calls or []).decode("utf-8", "replace")
    kinds = (
        (ChunkKind.TOOL, tool),
        (ChunkKind.REASONING, reasoning),
        (ChunkKind.CONTENT, content or choice.token_ids or unseen),
        (ChunkKind.USAGE, message.usage is not None),
        (ChunkKind.ROLE, delta.role),
    )
    return Piece(
        stamp,
        next((kind for kind, present in kinds if present), ChunkKind.OTHER),
        content or reasoning or tool,
        ids=-1 if choice.token_ids is None else len(choice.token_ids),
        running=running,
    )
