"""Responses as vLLM, SGLang and llama.cpp stream them, in every form that HTTP and SSE allow, and then broken."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from random import Random

TEXTS = (
    " the", "Hello", ",", "\n\n", '"', "\\", " 0\r\n\r\n", "data: x", "[DONE]", "é", "日本", "👩‍👩‍👧",
    "\u2028", "\x7f", "\x00",
    "\t", "chat.completion.chunk", "assistant", "content", "null", "stop", "m", '"content":"x"', "}", "\ufeff", "/",
    '"usage":{', '},"usage":{"completion_tokens":9}}', '"timings":{"predicted_n":3}}', "{", "",
    "a text that no server sends",
)  # fmt: skip
SAME = ("chat.completion.chunk", "assistant", "m", "cmpl-1", "stop")
"""Texts that stand elsewhere in the same message too."""


@dataclass(frozen=True)
class Case:
    """The bytes of a response, the reads that bring them, and whether the connection was cut after them."""

    reads: tuple[bytes, ...]
    kind: str

    @property
    def raw(self) -> bytes:
        return b"".join(self.reads)


def case(seed: int) -> Case:
    """One response. The same seed gives the same case."""
    draw = Random(seed)
    documents = _documents(draw)
    if broken_json := draw.random() < 0.3:
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(documents))
            documents[place] = (documents[place][0], _broken(draw, documents[place][1]))
    raw = _http(draw, _sse(draw, documents))
    if broken_http := draw.random() < 0.3:
        raw = _broken(draw, raw)
    kind = f"{'broken' if broken_json else 'whole'} messages, {'broken' if broken_http else 'whole'} response"
    return Case(tuple(_reads(draw, raw)), kind)


def _documents(draw: Random) -> list[tuple[str, bytes]]:
    """Event name and data of every event."""
    flavour = draw.choice((_vllm, _sglang, _llamacpp, _completions))
    messages = flavour(draw)
    style = _style(draw)
    if draw.random() < 0.1:
        _make_alike(draw, messages)
    if draw.random() < 0.15:
        order = draw.sample(("choices", "usage", "timings", "model", "id", "object", "created", "last"), 8)
        last = draw.choice((None, {}, {"usage": {"completion_tokens": 1}}, 1, "}"))
        messages = [dict(sorted({**each, "last": last}.items(), key=lambda pair: order.index(pair[0])
                                if pair[0] in order else 8)) for each in messages]  # fmt: skip
    documents = [("", _dumped(draw, message, style)) for message in messages]
    if draw.random() < 0.08:
        name = draw.choice(("error", "", "message", "ping"))
        error = draw.choice(({"error": {"message": "out of memory", "code": 500}}, {"error": "busy"}, {"message": "x"}))
        documents.insert(draw.randint(0, len(documents)), (name, _dumped(draw, error, style)))
    if draw.random() < 0.9:
        documents.append(("", b"[DONE]"))
    return documents


def _make_alike(draw: Random, messages: list[dict]) -> None:
    """Only few words, in the text and in other fields, which change from chunk to chunk as no server's do."""
    words = draw.sample(SAME, 2)
    for message in messages:
        message["model"] = draw.choice(words)
        for choice in message["choices"]:
            choice["stop_reason"] = draw.choice(words)
            fields = choice.get("delta") or choice
            for name in ("content", "text", "reasoning", "reasoning_content"):
                if fields.get(name):
                    fields[name] = draw.choice(words)


def _vllm(draw: Random) -> list[dict]:
    model, usage_too, ids_too = draw.choice(("m", "Qwen/Qwen3-8B")), draw.random() < 0.5, draw.random() < 0.2
    field = draw.choice(("reasoning", "reasoning_content"))
    reasoning = draw.randint(0, 3) if draw.random() < 0.3 else 0

    def message(delta, finish=None, ids=None):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": ids}
        return {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1764, "model": model, "choices": [choice]}

    found = [message({"role": "assistant", "content": ""})] if draw.random() < 0.8 else []
    counted = 0
    for number in range(draw.randint(1, 9)):
        tokens = draw.randint(1, 4) if draw.random() < 0.3 else 1
        counted += tokens
        text = _text(draw, tokens)
        delta = {field: text} if number < reasoning else {"content": text}
        if draw.random() < 0.04:
            call = {"index": 0, "id": "call-1", "function": {"name": "f", "arguments": text}}
            delta = {"tool_calls": [call] * draw.randint(0, 2)}
        found.append(message(delta, ids=[draw.randint(0, 150_000) for _ in range(tokens)] if ids_too else None))
        if usage_too:
            found[-1]["usage"] = {"prompt_tokens": 7, "total_tokens": 7 + counted, "completion_tokens": counted}
            if draw.random() < 0.2:
                found[-1]["usage"]["prompt_tokens_details"] = {"cached_tokens": draw.randint(0, 7)}
    found.append(message({"content": draw.choice(("", "x"))}, finish=draw.choice(("stop", "length", "tool_calls"))))
    if draw.random() < 0.8:
        details = draw.choice((None, {"cached_tokens": 4}, {"cached_tokens": None}, {}))
        usage = {"prompt_tokens": 7, "completion_tokens": counted, "prompt_tokens_details": details}
        found.append({"id": "cmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [], "usage": usage})
    return found


def _sglang(draw: Random) -> list[dict]:
    found = []
    for number in range(draw.randint(1, 10)):
        delta = {
            "role": "assistant" if number == 0 else None,
            "content": _text(draw),
            "reasoning_content": None,
            "tool_calls": None,
        }
        if draw.random() < 0.2:
            delta["content"], delta["reasoning_content"] = None, _text(draw)
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "matched_stop": None}
        found.append({"id": "9f", "object": "chat.completion.chunk", "model": "m", "choices": [choice], "usage": None})
    found[-1]["choices"][0] |= {"finish_reason": "length", "matched_stop": 2}
    if draw.random() < 0.5:
        found.append({"id": "9f", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(found)}})
    return found  # fmt: skip


def _llamacpp(draw: Random) -> list[dict]:
    timed = draw.random() < 0.6
    found = []
    for number in range(draw.randint(1, 10)):
        delta = {"content": _text(draw)} if number or draw.random() < 0.5 else {"role": "assistant", "content": None}
        choice = {"finish_reason": None, "index": 0, "delta": delta}
        found.append({"choices": [choice], "created": 17, "id": "chatcmpl-x", "model": "m", "system_fingerprint": "b1"})
        if timed:
            timings = {"cache_n": 0, "prompt_n": 5, "prompt_ms": 12.25, "predicted_n": number, "predicted_ms": 1e2}
            found[-1]["timings"] = timings
    found.append({"choices": [{"finish_reason": "stop", "index": 0, "delta": {}}], "created": 17, "model": "m"})
    return found


def _completions(draw: Random) -> list[dict]:
    found = [
        {"id": "cmpl-1", "object": "text_completion", "model": "m",
         "choices": [{"index": 0, "text": _text(draw), "logprobs": None, "finish_reason": None, "stop_reason": None}]}
        for _ in range(draw.randint(1, 10))
    ]  # fmt: skip
    found[-1]["choices"][0]["finish_reason"] = "length"
    if draw.random() < 0.2:
        found[-1]["choices"].append({"index": 1, "text": "second"})
    return found


def _text(draw: Random, tokens: int = 1) -> str:
    if draw.random() < 0.1:
        return draw.choice(SAME)
    return "".join(draw.choice(TEXTS) if draw.random() < 0.5 else f" w{draw.randint(0, 99)}" for _ in range(tokens))


def _style(draw: Random) -> dict:
    separators = draw.choice(((",", ":"), (", ", ": "), (" ,", " :"), (",\t", ":\n")))
    return {"ensure_ascii": draw.random() < 0.5, "separators": separators}


def _dumped(draw: Random, message: dict, style: dict) -> bytes:
    """As JSON; sometimes with keys twice, in another order, or with letters written as escapes."""
    text = json.dumps(message, **style)
    roll = draw.random()
    if roll < 0.04:
        text = _doubled(draw, text)
    elif roll < 0.08:
        text = _escaped(draw, text)
    elif roll < 0.12:
        text = _revalued(draw, text)
    elif roll < 0.14:
        text = json.dumps(dict(draw.sample(list(message.items()), len(message))), **style)
    return text.encode("utf-8", "surrogatepass")


def _doubled(draw: Random, text: str) -> str:
    """A second value for one of the keys, right after an opening brace or before a closing one."""
    key = draw.choice(("content", "choices", "delta", "usage", "text", "role", "error", "finish_reason", "token_ids"))
    values = ('"twice"', "null", "[]", "{}", "7", '{"content":"in"}', '[{"delta":{"content":"in"}}]', '""')
    pair = f'"{key}":{draw.choice(values)}'
    places = [at for at, mark in enumerate(text) if mark in "{}"]
    at = draw.choice(places)
    if text[at] == "{":
        rest = text[at + 1 :]
        return f"{text[: at + 1]}{pair}{'' if rest.lstrip().startswith('}') else ','}{rest}"
    before = text[:at]
    return f"{before}{'' if before.rstrip().endswith('{') else ','}{pair}{text[at:]}"


def _revalued(draw: Random, text: str) -> str:
    """Another value after one of the colons."""
    values = (
        "-1",
        "-2",
        "7",
        "3.0",
        "1e2",
        "1e999",
        "true",
        "null",
        '"x"',
        "[]",
        "{}",
        "NaN",
        "9" * 16,
        "9" * 17,
        "9" * 400,
        "9" * 5000,
        "-0",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        "[" * 3000 + "]" * 3000,
        '{"a":' * 2000 + "1" + "}" * 2000,
    )
    found = list(re.finditer(r'(?<=:)(\d+|null|"[a-z.]*"|true|false)', text))
    if not found:
        return text
    place = draw.choice(found)
    return f"{text[: place.start()]}{draw.choice(values)}{text[place.end() :]}"  # fmt: skip


def _escaped(draw: Random, text: str) -> str:
    """Some plain letters as \\uXXXX: in keys, in texts, anywhere in a string."""
    out = []
    inside = escaped = False
    for mark in text:
        if inside and not escaped and mark.isascii() and mark.isalpha() and draw.random() < 0.1:
            out.append(f"\\u{ord(mark):04{draw.choice('xX')}}")
            continue
        out.append(mark)
        if mark == '"' and not escaped:
            inside = not inside
        escaped = mark == "\\" and not escaped
    return "".join(out)


def _sse(draw: Random, documents: list[tuple[str, bytes]]) -> list[bytes]:
    """One entry an event as framed."""
    end = draw.choice((b"\n",) * 6 + (b"\r\n",) * 2 + (b"\r",))
    colon = draw.choice((b"data: ",) * 6 + (b"data:",))
    strange = draw.random() < 0.25
    frames = []
    for name, data in documents:
        lines = [b"event: " + name.encode()] if name else []
        lines += [colon + part for part in data.replace(b"\r\n", b"\n").split(b"\n")]
        if strange:
            _sprinkle(draw, lines)
        line_ends = [draw.choice((b"\n", b"\r\n", b"\r")) if strange and draw.random() < 0.1 else end for _ in lines]
        blank = end * (draw.randint(2, 3) if strange and draw.random() < 0.1 else 1)
        frames.append(b"".join(map(b"".join, zip(lines, line_ends, strict=True))) + blank)
    if strange and draw.random() < 0.3:
        frames[0] = draw.choice((b"\xef\xbb\xbf", b"\xef\xbb", b"\n", b"\r")) + frames[0]
    if draw.random() < 0.1:
        frames[-1] = frames[-1][: -len(end) * draw.randint(1, 2)]
    return frames


def _sprinkle(draw: Random, lines: list[bytes]) -> None:
    extra = (b": ping", b":", b"id: 7", b"retry: 3000", b"event: message", b"data", b"dat: x", b" data: x", b"data :y")
    for _ in range(draw.randint(0, 2)):
        lines.insert(draw.randint(0, len(lines)), draw.choice(extra))


def _http(draw: Random, frames: list[bytes]) -> bytes:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if draw.random() < 0.05 else b""
    status = draw.choice((b"200 OK",) * 12 + (b"200", b"500 Internal Server Error"))
    head = interim + b"HTTP/1.1 " + status + b"\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    body = b"".join(frames)
    roll = draw.random()
    if roll < 0.12:
        return head + b"content-length: %d\r\n\r\n" % len(body) + body + (b"extra" if roll < 0.01 else b"")
    if roll < 0.2:
        return head + b"Connection: close\r\n\r\n" + body
    if roll < 0.6:
        chunks = frames
    elif roll < 0.8:
        chunks = [b"".join(frames[at : at + 3]) for at in range(0, len(frames), 3)]
    else:
        cuts = sorted({0, len(body), *(draw.randint(0, len(body)) for _ in range(draw.randint(0, 12)))})
        chunks = [body[start:end] for start, end in pairwise(cuts)]
    odd = draw.random() < 0.2
    framed = b"".join(_chunk(draw, chunk, odd) for chunk in chunks if chunk)
    last = draw.choice((b"0\r\n", b"000\r\n", b"0;last\r\n")) if odd else b"0\r\n"
    trailer = b"X-Time: 5\r\nX-Other: a\r\n" if odd and draw.random() < 0.3 else b""
    surplus = draw.choice((b"\r\n", b"HTTP/1.1 400 Bad\r\n\r\n", b"x")) if draw.random() < 0.02 else b""
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + framed + last + trailer + b"\r\n" + surplus


def _chunk(draw: Random, data: bytes, odd: bool) -> bytes:
    size = f"{len(data):{draw.choice('xX')}}" if odd else f"{len(data):x}"
    if odd:
        size = draw.choice(("", "0", "00", " ")) + size + draw.choice(("", " ", ";a=b", '; q="x;y"', "\t;"))
    return size.encode() + b"\r\n" + data + b"\r\n"


def _broken(draw: Random, data: bytes) -> bytes:
    """Bits flipped, bytes lost, doubled, moved or added, or the end cut off."""
    broken = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(broken) + 1)
        roll = draw.randrange(7)
        if roll == 0 and at < len(broken):
            broken[at] ^= 1 << draw.randrange(8)
        elif roll == 1:
            del broken[at : at + draw.choice((1, 1, 2, 10))]
        elif roll == 2:
            broken[at:at] = broken[at : at + draw.randint(1, 30)]
        elif roll == 3:
            broken[at:at] = draw.choice(
                (b"\r", b"\n", b"\r\n", b"\x00", b"\xff", b'"', b"\\", b"{", b"]", b"0", b":", b"\\u00")
            )
        elif roll == 4 and at < len(broken):
            broken[at] = draw.randrange(256)
        elif roll == 5:
            del broken[at:]
        else:
            start = draw.randrange(len(broken) + 1)
            piece = broken[at : at + 8]
            del broken[at : at + 8]
            broken[start:start] = piece
    return bytes(broken)  # fmt: skip


def _reads(draw: Random, raw: bytes) -> list[bytes]:
    """In any splits: whole, byte by byte, by chunks as they are sent, or anywhere."""
    roll = draw.random()
    if roll < 0.1:
        edges = set(range(len(raw)))
    elif roll < 0.2:
        edges = set()
    elif roll < 0.5:
        edges = {at + 2 for at in range(len(raw)) if raw[at : at + 2] == b"\r\n" and draw.random() < 0.6}
    else:
        edges = {draw.randint(0, len(raw)) for _ in range(draw.randint(1, 30))}
    ordered = sorted(edges | {0, len(raw)})
    return [raw[start:end] for start, end in pairwise(ordered) if end > start]
