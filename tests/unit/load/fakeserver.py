"""A small OpenAI-like server with a known schedule, which logs when it sent what. Runs in a thread of the test."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Script:
    """What it does with a request. Times in seconds."""

    ttft_s: float = 0.03
    gap_s: float = 0.01
    tokens: int = 8
    per_chunk: int = 1
    role_early: bool = True
    reasoning: int = 0  # that many tokens come as reasoning first
    usage: str = "final"  # final, continuous, none
    ids: bool = False
    pings: bool = False
    newline: str = "\n"
    split_writes: bool = False
    framing: str = "chunked"  # chunked, length, close
    status: int = 200
    body: bytes | None = None  # sent instead of a stream
    content_type: str = "text/event-stream"
    event_error_after: int | None = None  # chunks
    cut_after: int | None = None  # chunks
    hang_after: int | None = None  # chunks; 0: never a token
    finish: str = "length"
    requests_per_connection: int | None = None  # closes after that many, without saying so beforehand
    drop_request: int | None = None  # closes on reading its n-th request of a connection, without an answer
    drop_delay_s: float = 0.0
    metrics: Callable[[], str] | None = None
    routes: dict[str, Callable[[dict], tuple[int, object]]] = field(default_factory=dict)


@dataclass
class Served:
    """What the server itself saw of one request."""

    path: str
    received_ns: int
    headers: dict[str, str]
    body: dict
    sends_ns: list[int] = field(default_factory=list)  # token chunks only

    @property
    def ttft_ms(self) -> float:
        return (self.sends_ns[0] - self.received_ns) / 1e6

    def tpot_ms(self, tokens: int) -> float:
        return (self.sends_ns[-1] - self.sends_ns[0]) / (tokens - 1) / 1e6


class FakeServer:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.served: list[Served] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def completions(self) -> list[Served]:
        return [served for served in self.served if "completions" in served.path]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        answered = 0
        try:
            while True:
                served = await self._read(reader)
                if served is None:
                    break
                if answered + 1 == self.script.drop_request:
                    await asyncio.sleep(self.script.drop_delay_s)
                    break
                self.served.append(served)
                await self._answer(served, writer)
                answered += 1
                if self.script.framing == "close" or answered == self.script.requests_per_connection:
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Served | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        received = time.monotonic_ns()
        first, *lines = head.decode().split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        return Served(first.split()[1], received, headers, json.loads(raw) if raw else {})

    async def _answer(self, served: Served, writer: asyncio.StreamWriter) -> None:
        script = self.script
        if served.path == "/metrics" and script.metrics:
            return self._whole(writer, 200, script.metrics().encode(), "text/plain")
        if route := script.routes.get(served.path):
            status, answer = route(served.body)
            return self._whole(writer, status, json.dumps(answer).encode(), "application/json")
        if "completions" not in served.path:
            return self._whole(writer, 404, b"{}", "application/json")
        if script.body is not None or script.status != 200:
            return self._whole(writer, script.status, script.body or b'{"error":"no"}', script.content_type)
        await self._stream(served, writer)
        return None

    def _whole(self, writer: asyncio.StreamWriter, status: int, body: bytes, kind: str) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    async def _stream(self, served: Served, writer: asyncio.StreamWriter) -> None:
        script, chat = self.script, "chat" in served.path
        held: list[bytes] = []

        async def send(text: str) -> None:
            data = text.replace("\n", script.newline).encode()
            match script.framing:
                case "length":
                    held.append(data)
                case "close":
                    writer.write(data)
                case _:
                    await self._write_chunk(writer, data)

        head = f"HTTP/1.1 200 OK\r\nContent-Type: {script.content_type}\r\n"
        writer.write({"length": b"", "close": f"{head}\r\n".encode()}.get(
            script.framing, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()))  # fmt: skip
        if script.role_early and chat:
            await send(event({"role": "assistant", "content": None}))
        if not await self._tokens(served, send, chat=chat):
            writer.transport.abort()
            raise ConnectionError
        if script.usage != "none":
            details = {"prompt_tokens_details": {"cached_tokens": 2}}
            await send(event(None, usage=self._usage(script.tokens) | details))
        await send("data: [DONE]\n\n")
        body = b"".join(held)
        writer.write({"length": f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, "close": b""}.get(
            script.framing, b"0\r\n\r\n"))  # fmt: skip

    async def _tokens(self, served: Served, send, *, chat: bool) -> bool:
        script, sent, chunks = self.script, 0, 0
        due = time.monotonic() + script.ttft_s
        while sent < script.tokens:
            if script.hang_after == chunks:
                await asyncio.sleep(600)
            if script.pings:
                await send(": ping\n\n")
            await asyncio.sleep(max(0, due - time.monotonic()))
            count = min(script.per_chunk, script.tokens - sent)
            text = "".join(f" t{n}" for n in range(sent, sent + count))
            sent += count
            served.sends_ns.append(time.monotonic_ns())
            await send(self._token_event(text, count, sent, chat=chat))
            chunks += 1
            due += script.gap_s
            if script.cut_after == chunks:
                return False
            if script.event_error_after == chunks:
                await send('data: {"error":{"message":"out of blocks","code":500}}\n\n')
        await send(event({}, finish=script.finish, chat=chat))
        return True

    def _token_event(self, text: str, count: int, sent: int, *, chat: bool) -> str:
        name = "reasoning_content" if sent <= self.script.reasoning else "content"
        ids = [1] * count if self.script.ids else None
        usage = self._usage(sent) if self.script.usage == "continuous" else None
        return event({name: text}, ids=ids, usage=usage, chat=chat)

    def _usage(self, tokens: int) -> dict:
        return {"prompt_tokens": 16, "completion_tokens": tokens, "total_tokens": 16 + tokens}

    async def _write_chunk(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        raw = b"%x\r\n%b\r\n" % (len(data), data)
        if not self.script.split_writes:
            writer.write(raw)
            return
        middle = max(7, len(raw) // 2)
        for part in (raw[:7], raw[7:middle], raw[middle:]):
            writer.write(part)
            await asyncio.sleep(0.001)


def event(delta, *, finish=None, usage=None, ids=None, chat=True) -> str:
    """One SSE event as text with LF ends."""
    choice = {"index": 0, "finish_reason": finish}
    if delta is not None:
        choice |= {"delta": delta} if chat else {"text": "".join(v for v in delta.values() if v)}
    if ids is not None:
        choice["token_ids"] = ids
    message = {"id": "x", "object": "chat.completion.chunk", "choices": [] if delta is None else [choice]}
    if usage is not None:
        message["usage"] = usage
    return f"data: {json.dumps(message)}\n\n"


@contextmanager
def serving(script: Script, tls=None):
    """A FakeServer that listens on a free port of the loopback address until the block ends."""
    server = FakeServer(script)
    ready, loop = threading.Event(), asyncio.new_event_loop()

    def work() -> None:
        asyncio.set_event_loop(loop)
        listener = loop.run_until_complete(asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls))
        server.port = listener.sockets[0].getsockname()[1]
        ready.set()
        loop.run_forever()
        listener.close()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(5)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
