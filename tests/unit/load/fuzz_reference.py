"""Slow, obvious decoders to compare the real ones with: a byte at a time, one rule of the standard a line.

HTTP: RFC 9112, sections 4, 6 and 7. Events: WHATWG HTML, section 9.2.6. JSON: `json.loads`, and then every field that
means something checked by hand.
"""

import json
import math
import re
from dataclasses import dataclass, field

BAD_BYTE = "\U0010fffe"
"""Stands for a byte that is no UTF-8; no generated text has it."""
TEXT_FIELDS = ("role", "content", "reasoning", "reasoning_content")
MOST_COUNTED = 2**53


class Malformed(Exception):
    """No response, or no message."""


# HTTP


@dataclass
class Response:
    """What the bytes so far are."""

    status: int = 0
    headers: dict = field(default_factory=dict)
    head_end: int = -1
    body: bytearray = field(default_factory=bytearray)
    raw_offsets: list = field(default_factory=list)
    """Of every body byte, where it stands in the response."""
    end: int | None = None
    """Where the response ends; None: not yet."""
    broken: int | None = None
    """So many bytes show that it is no response."""


def response(raw: bytes) -> Response:
    """Decode what is there of a response."""
    found = Response()
    for number, byte in enumerate(b"HTTP/1."[: len(raw)]):
        if raw[number] != byte:
            found.broken = number + 1
            return found
    _head(raw, found)
    if found.head_end < 0 or found.broken is not None:
        return found
    if found.headers.get("transfer-encoding", "").lower().endswith("chunked"):
        _chunked(raw, found)
        return found
    stated = found.headers.get("content-length", "")
    length = 0 if found.status == 204 else int(stated) if re.fullmatch("[0-9]+", stated) else len(raw) + 1
    for offset in range(found.head_end, min(len(raw), found.head_end + length)):
        found.body.append(raw[offset])
        found.raw_offsets.append(offset)
    if len(raw) >= found.head_end + length:
        found.end = found.head_end + length
    return found


def _head(raw: bytes, found: Response) -> None:
    at = 0
    while True:
        lines = []
        while len(lines) < 2 or lines[-1]:
            line, at = _line(raw, at)
            if line is None:
                return
            lines.append(line.decode("latin-1"))
        status = re.match(r"HTTP/1\.[^ ]* ([0-9]{3})", lines[0], re.DOTALL)
        if status is None:
            found.broken = at
            return
        if int(status.group(1)) >= 200:
            break
    found.status, found.head_end = int(status.group(1)), at
    for text in lines[1:-1]:
        name, _, value = text.partition(":")
        found.headers[name.strip().lower()] = value.strip()


def _chunked(raw: bytes, found: Response) -> None:
    """One state a step: size line, so many bytes, CR LF; after size 0 trailer lines up to an empty one."""
    at = found.head_end
    while True:
        line, at = _line(raw, at)
        if line is None:
            return
        size = line.split(b";")[0].strip()
        if not size or any(byte not in b"0123456789abcdefABCDEF" for byte in size):
            found.broken = at
            return
        left = int(size, 16)
        if left == 0:
            break
        while left and at < len(raw):
            found.body.append(raw[at])
            found.raw_offsets.append(at)
            at, left = at + 1, left - 1
        for byte in b"\r\n":
            if at >= len(raw):
                return
            if raw[at] != byte:
                found.broken = at
                return
            at += 1
    while True:
        line, at = _line(raw, at)
        if line is None:
            return
        if not line:
            found.end = at
            return


def _line(raw: bytes, at: int) -> tuple[bytes | None, int]:
    line = bytearray()
    for place in range(at, len(raw)):
        line.append(raw[place])
        if raw[place] == 0x0A and len(line) > 1 and line[-2] == 0x0D:
            return bytes(line[:-2]), place + 1
    return None, at


# Server-sent events


def events(body: bytes, *, complete: bool) -> list[tuple[str, bytes, int]]:
    """Name, data and the offset after the line end that completed it. The one addition to the standard: what stands at
    the end of a complete body without a blank line counts."""
    found, data, name = [], [], b""
    at = 3 if body[:3] == b"\xef\xbb\xbf" else 0
    while at < len(body):
        line, ended = bytearray(), False
        while at < len(body) and not ended:
            byte = body[at]
            at += 1
            if byte == 0x0D and at < len(body) and body[at] == 0x0A:
                at += 1
            ended = byte in (0x0D, 0x0A)
            if not ended:
                line.append(byte)
        if not ended and not complete:
            break
        if not line:
            if data:
                found.append((name.decode("utf-8", "replace"), b"\n".join(data), at))
            data, name = [], b""
            continue
        key, colon, value = bytes(line).partition(b":")
        value = value[1:] if colon and value[:1] == b" " else value
        if key == b"data":
            data.append(value)
        if key == b"event":
            name = value
    if data and complete:
        found.append((name.decode("utf-8", "replace"), b"\n".join(data), len(body)))
    return found


# Messages


class Pairs(list):
    """An object with all that it says, a key twice too."""

    def all(self, key):
        return [value for name, value in self if name == key]

    def last(self, key):
        values = self.all(key)
        return values[-1] if values else None


@dataclass
class Columns:
    """As `Stream`, for the fields that are compared."""

    kinds: list = field(default_factory=list)
    texts: list = field(default_factory=list)
    ids: list = field(default_factory=list)
    running: list = field(default_factory=list)
    prompt_tokens: int = -1
    completion_tokens: int = -1
    cached: int = -1
    finish: str = ""
    counted: int = -1
    done: bool = False
    error: str = ""
    detail: str = ""


ROLE, CONTENT, REASONING, TOOL, USAGE, OTHER = range(6)


def columns(found: list[tuple[str, bytes]]) -> Columns:
    """Every event decoded on its own."""
    told = Columns()
    for name, data in found:
        if data.strip() == b"[DONE]":
            told.done = True
            continue
        try:
            message = _message(data)
        except Malformed:
            if not told.error:
                told.error = "server-error-event" if name == "error" else "malformed"
                told.detail = data[:300].decode("utf-8", "replace")
            _add(told, OTHER, "", -1, -1)
            continue
        if not told.error and (name == "error" or message.last("error") is not None):
            told.error, told.detail = "server-error-event", data[:300].decode("utf-8", "replace")
        _read(told, message)
    return told


def _add(told: Columns, kind: int, text: object, ids: int, running: int) -> None:
    told.kinds.append(kind)
    told.texts.append(text)
    told.ids.append(ids)
    told.running.append(running)


def _message(data: bytes) -> Pairs:
    """Parse and check. Bytes that are no UTF-8 do not matter in what is passed over."""
    text = _decoded(data)
    try:
        message = json.loads(text, object_pairs_hook=Pairs, parse_constant=_refuse, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise Malformed from error
    _need(isinstance(message, Pairs))
    _no_lone_surrogates(message)
    for choices in message.all("choices"):
        _need(isinstance(choices, list) and not isinstance(choices, Pairs))
        for choice in choices:
            _need(isinstance(choice, Pairs))
            _check_choice(choice)
    for usage in message.all("usage"):
        _check_usage(usage)
    for timings in message.all("timings"):
        _need(timings is None or isinstance(timings, Pairs))
        for count in [] if timings is None else timings.all("predicted_n"):
            _check_count(count)
    for error in message.all("error"):
        _check_any(error)
    return message


def _decoded(data: bytes) -> str:
    text, at = "", 0
    while at < len(data):
        try:
            return text + data[at:].decode()
        except UnicodeDecodeError as error:
            text += data[at : at + error.start].decode() + BAD_BYTE
            at += error.start + 1
    return text


def _whole(digits: str) -> int:
    """Python turns no more than 4,300 digits into a number; more are as far out of range as this one."""
    return int(digits[:4000])


def _refuse(_: str) -> None:
    raise ValueError("no JSON")


def _need(truth: bool) -> None:
    if not truth:
        raise Malformed


def _no_lone_surrogates(value: object) -> None:
    if isinstance(value, str):
        _need(not any(0xD800 <= ord(mark) < 0xE000 for mark in value))
    elif isinstance(value, list | tuple):
        for entry in value:
            _no_lone_surrogates(entry)


def _check_text(value: object) -> None:
    _need(value is None or (isinstance(value, str) and BAD_BYTE not in value))


def _check_count(value: object) -> None:
    _need(isinstance(value, int) and not isinstance(value, bool))
    _need(-1 <= value <= MOST_COUNTED)


def _check_any(value: object) -> None:
    if isinstance(value, str):
        _need(BAD_BYTE not in value)
    elif isinstance(value, float):
        _need(not math.isinf(value))
    elif isinstance(value, int):
        _need(abs(value) < 10**3999)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_any(entry)


def _check_choice(choice: Pairs) -> None:
    for name in ("text", "finish_reason"):
        for value in choice.all(name):
            _check_text(value)
    for ids in choice.all("token_ids"):
        _need(ids is None or (isinstance(ids, list) and not isinstance(ids, Pairs)))
        for number in ids or ():
            _need(isinstance(number, int) and not isinstance(number, bool))
    for delta in choice.all("delta"):
        _need(delta is None or isinstance(delta, Pairs))
        for name in () if delta is None else TEXT_FIELDS:
            for value in delta.all(name):
                _check_text(value)
        for calls in () if delta is None else delta.all("tool_calls"):
            _need(calls is None or (isinstance(calls, list) and not isinstance(calls, Pairs)))


def _check_usage(usage: object) -> None:
    _need(usage is None or isinstance(usage, Pairs))
    if usage is None:
        return
    for name in ("prompt_tokens", "completion_tokens"):
        for count in usage.all(name):
            _check_count(count)
    for details in usage.all("prompt_tokens_details"):
        _need(details is None or isinstance(details, Pairs))
        for count in () if details is None else details.all("cached_tokens"):
            if count is not None:
                _check_count(count)


def _read(told: Columns, message: Pairs) -> None:
    """What one message adds."""
    usage, timings = message.last("usage"), message.last("timings")
    running = -1
    if usage is not None:
        told.prompt_tokens = _count(usage, "prompt_tokens")
        told.completion_tokens = running = _count(usage, "completion_tokens")
        told.cached = _count(usage.last("prompt_tokens_details") or Pairs(), "cached_tokens")
    elif timings is not None:
        running = _count(timings, "predicted_n")
    choices = message.last("choices") or []
    choice = choices[0] if choices else Pairs()
    told.finish = choice.last("finish_reason") or told.finish
    grew = bool(choices) and running > max(told.counted, 0)
    unseen = grew and (told.counted >= 0 or not told.finish)
    told.counted = max(told.counted, running)
    ids = choice.last("token_ids")
    kind, text = _carried(message, choice, unseen)
    _add(told, kind, text, -1 if ids is None else len(ids), running)


def _carried(message: Pairs, choice: Pairs, unseen: bool) -> tuple[int, object]:
    delta = choice.last("delta")
    fields = delta if delta is not None else Pairs()
    content = fields.last("content") or choice.last("text") or ""
    reasoning = fields.last("reasoning_content") or fields.last("reasoning") or ""
    calls = fields.last("tool_calls")
    if calls:
        return TOOL, content or reasoning or calls
    if reasoning:
        return REASONING, content or reasoning
    if content or choice.last("token_ids") or unseen:
        return CONTENT, content
    if message.last("usage") is not None:
        return USAGE, ""
    return (ROLE if fields.last("role") else OTHER), ""


def _count(pairs: Pairs, name: str) -> int:
    value = pairs.last(name)
    return -1 if value is None else value


def same_calls(text: str, calls: list) -> bool:
    """True if a text is the calls' JSON, one after the other."""
    decoder, at = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=_whole), 0
    for call in calls:
        value, at = decoder.raw_decode(text, at)
        if value != call:
            return False
    return at == len(text)
