"""The events of one response to columns: when each came, what it carried, what the server counted. Pure.

Most chunks of a stream differ from the one before in nothing but their text, and perhaps in what they count. Such a
chunk is recognised by its bytes: a JSON document that is equal up to inside a string and from that string's closing
quote on has the same structure, so it is not decoded again, or only the value of its last field. Where that string and
that value stand is proved by decoding a document with others in their places.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from servesmith.load.sse import Events
from servesmith.load.tokens import Draft
from servesmith.measure.records import ChunkKind, ErrorClass
from servesmith.units import Nanos

_EXCERPT = 300
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
"""A text that stands in a JSON string as it is (RFC 8259, section 7)."""
_PROBE = b"a text that no server sends"
_NO_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for bytes that are no message of this shape, one nested too deeply too."""

_Count = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
"""Tokens; -1: not said. What is beyond is no count and fits no column of a record."""


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
    cached_tokens: _Count | None = None


class Usage(msgspec.Struct):
    """The server's own counts; -1: it did not say."""

    prompt_tokens: _Count = -1
    completion_tokens: _Count = -1
    prompt_tokens_details: _Cached | None = None

    @property
    def cached(self) -> int:
        """Prompt tokens out of the prefix cache; -1: it did not say."""
        details = self.prompt_tokens_details
        return -1 if details is None or details.cached_tokens is None else details.cached_tokens


class _Timings(msgspec.Struct):
    predicted_n: _Count = -1


class _Message(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    timings: _Timings | None = None
    """llama.cpp, on request with every chunk: output tokens so far."""
    error: Any = None


_DECODER = msgspec.json.Decoder(_Message)
_COUNTS: "tuple[tuple[bytes, msgspec.json.Decoder[Usage | _Timings], bytes], ...]" = (
    (b'"usage"', msgspec.json.Decoder(Usage), b'{"prompt_tokens":7654321,"completion_tokens":1234567}'),
    (b'"timings"', msgspec.json.Decoder(_Timings), b'{"predicted_n":1234567}'),
)
"""Fields that count tokens in every chunk (vLLM, llama.cpp), their decoders, and values that no server sends."""


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
        if len(self.ids) < len(self.kinds):
            self.fill()
        self.stamps.append(stamp)
        self.kinds.append(kind)
        self.texts.append(text)
        self.ids.append(ids)
        self.running.append(running)

    def add_plain(self, stamp: Nanos, kind: int, text: str) -> None:
        """One event of which nothing was counted; `fill` says so later, of many at once."""
        self.stamps.append(stamp)
        self.kinds.append(kind)
        self.texts.append(text)

    def fill(self) -> None:
        """Say of all events that were added plainly that nothing was counted."""
        missing = [-1] * (len(self.kinds) - len(self.ids))
        self.ids += missing
        self.running += missing


def read_events(events: Events, stamps: Sequence[Nanos]) -> Stream:
    """Columns of all events, each with the time at which it was complete."""
    stream = Stream()
    like: _Likeness | None = None
    for name, data, stamp in zip(events.names, events.data, stamps, strict=True):
        if like is not None and not name and like.add(stream, data, stamp):
            continue
        message = _take(stream, name, data, stamp)
        if message is not None and message.error is None and not name:
            like = _likeness(data, message, stream.kinds[-1], stream.texts[-1]) or like
    stream.fill()
    return stream


class _Likeness:
    """The bytes around the text of a chunk that carries text, counts nothing and ends nothing."""

    __slots__ = ("_after", "_before", "_end", "_least", "_start", "kind")

    def __init__(self, before: bytes, after: bytes, kind: int) -> None:
        self._before, self._after, self.kind = before, after, kind
        self._start, self._end = len(before), len(after)
        self._least = self._start + self._end

    def add(self, stream: Stream, data: bytes, stamp: Nanos) -> bool:
        """Add a chunk of this likeness to the stream; False, and nothing done, if it is another."""
        if len(data) <= self._least or not data.startswith(self._before) or not data.endswith(self._after):
            return False
        text = _plain_text(data[self._start : len(data) - self._end])
        if text:
            stream.add_plain(stamp, self.kind, text)
        return bool(text)


class _CountingLikeness(_Likeness):
    """The same of a chunk whose last field counts tokens: `after` reaches up to that field's value."""

    __slots__ = ("_counts",)

    def __init__(
        self, before: bytes, after: bytes, kind: int, counts: "msgspec.json.Decoder[Usage | _Timings]"
    ) -> None:
        super().__init__(before, after, kind)
        self._counts = counts

    def add(self, stream: Stream, data: bytes, stamp: Nanos) -> bool:
        """As of a plain likeness; the counts are decoded each time."""
        quote = data.find(b'"', self._start)
        if not data.startswith(self._before) or not data.startswith(self._after, quote) or not data.endswith(b"}"):
            return False
        text = _plain_text(data[self._start : quote])
        if not text:
            return False
        try:
            counts = self._counts.decode(data[quote + self._end : -1])
        except _NO_MESSAGE:
            return False
        if isinstance(counts, Usage):
            stream.usage, running = counts, counts.completion_tokens
        else:
            running = counts.predicted_n
        if running > stream.counted:
            stream.counted = running
        stream.add(stamp, self.kind, text, -1, running)
        return True


def _likeness(data: bytes, message: _Message, kind: int, text: str) -> _Likeness | None:
    """The likeness of a chunk that carries plain text and ends nothing; None for any other."""
    if kind not in (ChunkKind.CONTENT, ChunkKind.REASONING) or not _PLAIN.fullmatch(text):
        return None
    choice = message.choices[0]
    if choice.finish_reason or choice.token_ids is not None or (message.usage and message.timings):
        return None
    before, quoted, after = data.partition(b'"%b"' % text.encode())
    if not quoted:
        return None
    before, after = before + b'"', b'"' + after
    if not message.usage and not message.timings:
        return _Likeness(before, after, kind) if _proved(before + _PROBE + after, message, text) else None
    name, counts, value = _COUNTS[message.usage is None]
    at = after.rfind(name)
    at = after.find(b"{", at) if at >= 0 else -1
    if at < 0 or not after.endswith(b"}"):
        return None
    after = after[:at]
    counted = msgspec.structs.replace(message, **{name.decode()[1:-1]: counts.decode(value)})
    proved = _proved(before + _PROBE + after + value + b"}", counted, text)
    return _CountingLikeness(before, after, kind, counts) if proved else None


def _proved(probe: bytes, message: _Message, text: str) -> bool:
    """True if a document with the probe's values in it differs from the message in these values alone."""
    try:
        decoded = _DECODER.decode(probe)
    except _NO_MESSAGE:
        return False
    return decoded == _with_text(message, text, _PROBE.decode())


def _plain_text(raw: bytes) -> str:
    """A text that stands in JSON as it is; empty if it is another."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
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


def _take(stream: Stream, name: str, data: bytes, stamp: Nanos) -> _Message | None:
    """Add one event to what is known of a stream; None if it is no message. The first error stands."""
    if data.strip() == b"[DONE]":
        stream.done = True
        return None
    try:
        message = _DECODER.decode(data)
    except _NO_MESSAGE as error:
        excerpt = data[:_EXCERPT].decode("utf-8", "replace")
        if not stream.error:
            stream.error = "server-error-event" if name == "error" else "malformed"
            stream.detail = excerpt if name == "error" else f"{error}: {excerpt}"
        stream.add(stamp, ChunkKind.OTHER)
        return None
    if (message.error is not None or name == "error") and not stream.error:
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
