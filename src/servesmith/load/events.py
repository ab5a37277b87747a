"""The events of one response to columns: when each came, what it carried, what the server counted. Pure.

Most chunks of a stream differ from the one before in nothing but their text. Such a chunk is recognised by its bytes:
a JSON document that is equal up to inside a string and from that string's closing quote on has the same structure, so
it is not decoded again. `_Likeness` proves where that string stands by decoding a document with another text in it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from servesmith.load.sse import Event
from servesmith.load.tokens import Draft
from servesmith.measure.records import ChunkKind, ErrorClass
from servesmith.units import Nanos

_EXCERPT = 300
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
"""A text that stands in a JSON string as it is (RFC 8259, section 7)."""
_PROBE = "a text that no server sends"


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


class Usage(msgspec.Struct):
    """The server's own counts; -1: it did not say."""

    prompt_tokens: int = -1
    completion_tokens: int = -1
    prompt_tokens_details: _Cached | None = None

    @property
    def cached(self) -> int:
        """Prompt tokens out of the prefix cache; -1: it did not say."""
        details = self.prompt_tokens_details
        return -1 if details is None or details.cached_tokens is None else details.cached_tokens


class _Timings(msgspec.Struct):
    predicted_n: int = -1


class _Message(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    timings: _Timings | None = None
    """llama.cpp, on request with every chunk: output tokens so far."""
    error: Any = None


_DECODER = msgspec.json.Decoder(_Message)


@dataclass
class Stream:
    """What the events of one response said. The lists are parallel, one entry a data event but `[DONE]`."""

    stamps: list[Nanos] = field(default_factory=list[Nanos])
    kinds: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])
    ids: list[int] = field(default_factory=list[int])
    running: list[int] = field(default_factory=list[int])
    usage: Usage = field(default_factory=Usage)
    finish: str = ""
    counted: int = -1
    """The largest running count so far."""
    done: bool = False
    error: ErrorClass = ""
    detail: str = ""

    def draft(self) -> Draft:
        """What is known of the tokens."""
        return Draft(self.kinds, self.texts, self.ids, self.running, self.usage.completion_tokens)

    def content(self) -> str:
        """The answer: no reasoning, no tool calls."""
        return "".join(text for text, kind in zip(self.texts, self.kinds, strict=True) if kind == ChunkKind.CONTENT)

    def add(self, stamp: Nanos, kind: int, text: str = "", ids: int = -1, running: int = -1) -> None:
        """One event."""
        self.stamps.append(stamp)
        self.kinds.append(kind)
        self.texts.append(text)
        self.ids.append(ids)
        self.running.append(running)


def read_events(events: Sequence[Event], stamps: Sequence[Nanos]) -> Stream:
    """Columns of all events, each with the time at which it was complete."""
    stream = Stream()
    like: _Likeness | None = None
    for event, stamp in zip(events, stamps, strict=True):
        if like is not None and not event.name and (text := like.text(event.data)):
            stream.add(stamp, like.kind, text)
            continue
        message = _take(stream, event, stamp)
        plain = message is not None and message.error is None and not event.name
        like = _Likeness.of(event.data, message, stream.kinds[-1], stream.texts[-1]) if message and plain else None
    return stream


class _Likeness:
    """The bytes around the text of a plain chunk."""

    __slots__ = ("_after", "_before", "_least", "kind")

    def __init__(self, before: bytes, after: bytes, kind: int) -> None:
        self._before, self._after, self.kind = before, after, kind
        self._least = len(before) + len(after)

    @classmethod
    def of(cls, data: bytes, message: _Message, kind: int, text: str) -> "_Likeness | None":
        """The likeness of a chunk that carries text and nothing that counts or ends; None for any other."""
        if kind not in (ChunkKind.CONTENT, ChunkKind.REASONING) or not _PLAIN.fullmatch(text):
            return None
        choice = message.choices[0]
        if message.usage or message.timings or choice.finish_reason or choice.token_ids is not None:
            return None
        before, quoted, after = data.partition(b'"%b"' % text.encode())
        if not quoted:
            return None
        before, after = before + b'"', b'"' + after
        try:
            probe = _DECODER.decode(before + _PROBE.encode() + after)
        except msgspec.DecodeError:
            return None
        if _with_text(message, text, _PROBE) != probe:
            return None
        return cls(before, after, kind)

    def text(self, data: bytes) -> str:
        """The text of a chunk of this likeness, empty if it is another."""
        if len(data) <= self._least or not (data.startswith(self._before) and data.endswith(self._after)):
            return ""
        try:
            text = data[len(self._before) : len(data) - len(self._after)].decode()
        except UnicodeDecodeError:
            return ""
        return text if _PLAIN.fullmatch(text) else ""


def _with_text(message: _Message, old: str, new: str) -> _Message:
    """The message with its one text replaced."""
    choice = message.choices[0]
    delta = choice.delta
    if delta is not None:
        fields = {n: new for n in ("content", "reasoning", "reasoning_content") if getattr(delta, n) == old}
        delta = msgspec.structs.replace(delta, **fields)
    text = new if choice.text == old else choice.text
    choice = msgspec.structs.replace(choice, delta=delta, text=text)
    return msgspec.structs.replace(message, choices=[choice, *message.choices[1:]])


def _take(stream: Stream, event: Event, stamp: Nanos) -> _Message | None:
    """Add one event to what is known of a stream; None if it is no message. The first error stands."""
    data = event.data
    if data.strip() == b"[DONE]":
        stream.done = True
        return None
    try:
        message = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        excerpt = data[:_EXCERPT].decode("utf-8", "replace")
        if not stream.error:
            stream.error = "server-error-event" if event.name == "error" else "malformed"
            stream.detail = excerpt if event.name == "error" else f"{error}: {excerpt}"
        stream.add(stamp, ChunkKind.OTHER)
        return None
    if (message.error is not None or event.name == "error") and not stream.error:
        stream.error, stream.detail = "server-error-event", data[:_EXCERPT].decode("utf-8", "replace")
    if message.usage is not None:
        stream.usage = message.usage
    _add(stream, message, stamp)
    return message


def _add(stream: Stream, message: _Message, stamp: Nanos) -> None:
    choice = message.choices[0] if message.choices else _Choice()
    stream.finish = choice.finish_reason or stream.finish
    running = (
        message.usage.completion_tokens if message.usage else message.timings.predicted_n if message.timings else -1
    )
    # A character of several tokens makes chunks without text; only the running count shows their tokens. A count that
    # comes for the first time with the end is the final usage and shows nothing.
    unseen = bool(message.choices) and running > max(stream.counted, 0) and (stream.counted >= 0 or not stream.finish)
    stream.counted = max(stream.counted, running)
    kind, text = _carried(message, choice, unseen=unseen)
    stream.add(stamp, kind, text, -1 if choice.token_ids is None else len(choice.token_ids), running)


def _carried(message: _Message, choice: _Choice, *, unseen: bool) -> tuple[int, str]:
    """What kind of chunk it is, and its text."""
    delta = choice.delta
    content = choice.text or ""
    if delta is not None:
        content = delta.content or content
        reasoning = delta.reasoning_content or delta.reasoning or ""
        if delta.tool_calls:
            tool = b"".join(bytes(call) for call in delta.tool_calls).decode("utf-8", "replace")
            return ChunkKind.TOOL, content or reasoning or tool
        if reasoning:
            return ChunkKind.REASONING, content or reasoning
    if content or choice.token_ids or unseen:
        return ChunkKind.CONTENT, content
    if message.usage is not None:
        return ChunkKind.USAGE, ""
    return (ChunkKind.ROLE if delta is not None and delta.role else ChunkKind.OTHER), ""
