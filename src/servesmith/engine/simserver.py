"""The sim engine: an OpenAI-compatible SSE server with a known schedule and planted faults, to prove client and loop.

    python -m servesmith.engine.simserver --port 8080 --ttft-ms 50 --gap-ms 10 --slots 4

Endpoints: /health /v1/models /props /metrics /tokenize /apply-template /v1/completions /v1/chat/completions.
/metrics (Prometheus text): counters sim:requests_total, sim:prompt_tokens_total, sim:cached_tokens_total,
sim:generation_tokens_total, sim:steps_total; gauges sim:requests_running, sim:requests_waiting.
Deadlines are absolute, so lateness does not add up. With `--truth FILE` each request leaves one JSON line: `id` (as in
its chunks), arrival_ns, granted_ns (slot), and `chunks` as [kind, tokens, due_ns, sent_ns], all CLOCK_MONOTONIC.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import secrets
import selectors
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import IO, Any

from servesmith.engine.jsonview import as_map
from servesmith.engine.simmodel import (
    VOCABULARY,
    Ask,
    BadRequest,
    Chunk,
    Schedule,
    SimOptions,
    chunks,
    factor,
    read_ask,
    template,
    tokens,
    unit,
)

NS = 1_000_000_000
SPLIT_S = 0.001


def read_options(argv: list[str]) -> SimOptions:
    """Options from the command line; each field of SimOptions is a flag."""
    parser = argparse.ArgumentParser(prog="simserver", allow_abbrev=False)
    for item in fields(SimOptions):
        name = f"--{item.name.replace('_', '-')}"
        default: bool | int | float | str = getattr(SimOptions, item.name)
        if isinstance(default, bool):
            parser.add_argument(name, action="store_true", help=item.metadata["help"])
        else:
            parser.add_argument(name, type=type(default), default=default, help=item.metadata["help"])
    return SimOptions(**vars(parser.parse_args(argv)))


def main(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = read_options(argv)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.oom_at_start:
        sys.stderr.write(
            "Loading weights\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. "
            "GPU 0 has a total capacity of 139.81 GiB of which 3.12 GiB is free.\nEngine core initialization failed.\n"
        )
        return 1
    if options.crash_at_start:
        raise RuntimeError("planted crash (--crash-at-start)")
    exact = options.connections <= SimOptions.connections
    # select() takes its timeout in microseconds, epoll in milliseconds; but select() stops at 1024 descriptors
    selector = selectors.SelectSelector() if exact else selectors.DefaultSelector()
    gc.freeze()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        try:
            runner.run(_serve(options))
        except OSError as error:
            sys.stderr.write(f"error: cannot bind {options.host}:{options.port}: {error.strerror}\n")
            return 1
    return 0


async def _serve(options: SimOptions) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    truth = Path(options.truth).open("a", buffering=1) if options.truth else None  # noqa: ASYNC230, SIM115
    sim = Sim(options, _start_factor(options), asyncio.Semaphore(options.slots), truth, _cold(options))
    server = await asyncio.start_server(sim.connection, options.host, options.port, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"sim {json.dumps(asdict(options))}\nlistening on http://{options.host}:{port}\n")
    sys.stdout.flush()
    await stop.wait()
    os._exit(0)  # at once: answers under way are cut as by any server that is stopped


def _cold(options: SimOptions) -> float:
    """What an empty cache costs this start, which fills it as engines do that compile."""
    folder = os.environ.get("SIM_CACHE_DIR", "")
    if not folder or not options.cold_start:
        return 0.0
    mark = Path(folder) / "compiled"
    warm = mark.exists()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return 0.0 if warm else options.cold_start


def _start_factor(options: SimOptions) -> float:
    start = options.start
    if start < 0:
        start = int(os.environ.get("SERVESMITH_SEED") or secrets.randbits(32))
    return factor(options.noise_restart, options.seed, "start", start)


@dataclass
class Counts:
    """What /metrics shows."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    steps: int = 0
    running: int = 0
    waiting: int = 0


@dataclass
class Reply:
    """One answer under way: what was planned and what was sent when."""

    id: str
    ask: Ask
    arrival_ns: int
    cached: int = 0
    granted_ns: int = 0
    sent_tokens: int = 0
    sent: list[tuple[str, int, int, int]] = field(default_factory=list[tuple[str, int, int, int]])


@dataclass
class Sim:
    """The server: its options, its slots and its counters."""

    options: SimOptions
    start_factor: float
    slots: asyncio.Semaphore
    truth: IO[str] | None
    cold: float = 0.0
    """Seconds that this start takes longer because its cache was empty."""
    began: float = field(default_factory=time.monotonic)
    counts: Counts = field(default_factory=Counts)
    seen: set[str] = field(default_factory=set[str])
    leaked: list[bytes] = field(default_factory=list[bytes])

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        answered = 0
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            while not self.options.close_keepalive_after or answered < self.options.close_keepalive_after:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self.options.keepalive_idle_s or None)
                lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                await self._route(lines[0].split()[:2], body, writer)
                answered += 1
                if headers.get("connection", "").lower() == "close":
                    break
        writer.close()

    async def _route(self, line: list[str], body: bytes, writer: asyncio.StreamWriter) -> None:
        path = line[1].partition("?")[0]
        simple: dict[str, Callable[[dict[str, Any]], dict[str, Any] | str]] = {
            "/health": lambda _: {"status": "ok"},
            "/v1/models": self._models,
            "/props": self._props,
            "/metrics": self._metrics,
            "/tokenize": _tokenize,
            "/apply-template": lambda data: {"prompt": template(data.get("messages"))},
        }
        try:
            data = as_map(json.loads(body)) if body else {}
            if time.monotonic() - self.began < self.options.slow_start + self.cold:
                await _send(writer, 503, {"error": {"message": "Loading model", "type": "unavailable_error"}})
            elif path in simple:
                await _send(writer, 200, simple[path](data))
            elif path in ("/v1/completions", "/v1/chat/completions"):
                await self._generate(read_ask(data, self.options, chat=path.endswith("chat/completions")), writer)
            else:
                await _send(writer, 404, {"error": {"message": f"no {path} here", "type": "not_found_error"}})
        except (BadRequest, json.JSONDecodeError) as error:
            await _send(writer, 400, {"error": {"message": str(error), "type": "invalid_request_error"}})

    def _models(self, _: dict[str, Any]) -> dict[str, Any]:
        meta = {"n_ctx": self.options.ctx, "n_vocab": VOCABULARY}
        return {"object": "list", "data": [{"id": self.options.served_name, "object": "model", "meta": meta}]}

    def _props(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "total_slots": self.options.slots,
            "model_alias": self.options.served_name,
            "options": asdict(self.options),
        }

    def _metrics(self, _: dict[str, Any]) -> str:
        gauges = {"running": "requests_running", "waiting": "requests_waiting"}
        lines: list[str] = []
        for name, value in asdict(self.counts).items():
            shown = gauges.get(name, f"{name}_total")
            lines.append(f"# TYPE sim:{shown} {'gauge' if name in gauges else 'counter'}\nsim:{shown} {value}\n")
        return "".join(lines)

    async def _generate(self, ask: Ask, writer: asyncio.StreamWriter) -> None:
        number, self.counts.requests = self.counts.requests, self.counts.requests + 1
        reply = Reply(f"sim-{number}", ask, time.monotonic_ns())
        if 0 <= self.options.crash_after <= number:
            sys.stderr.write("sim: fatal error: planted crash (--crash-after)\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        if unit(self.options.seed, "error", number) < self.options.error_rate:
            await _send(writer, 500, {"error": {"message": "planted error", "type": "server_error"}})
            return
        self.counts.waiting += 1
        if ask.stream:
            await _send_head(writer, 200, "text/event-stream", "Transfer-Encoding: chunked")
            if ask.chat and not self.options.no_role_chunk:
                self._event(writer, reply, Chunk("role"), time.monotonic())
        async with self.slots:
            self.counts.waiting -= 1
            self.counts.running += 1
            try:
                await self._decode(reply, number, writer)
            finally:
                self.counts.running -= 1
                self._tell_truth(reply)

    async def _decode(self, reply: Reply, number: int, writer: asyncio.StreamWriter) -> None:
        """Hold a slot and send every chunk at its time."""
        reply.granted_ns = time.monotonic_ns()
        if self.options.hang_from_start or 0 <= self.options.hang_after <= number:
            await asyncio.Event().wait()
        ask = reply.ask
        reply.cached = ask.prompt_tokens - 1 if ask.prompt in self.seen else 0
        self.seen.add(ask.prompt)
        if self.options.leak_mib:
            self.leaked.append(b"\1" * round(self.options.leak_mib * 2**20))
        self.counts.prompt_tokens += ask.prompt_tokens
        self.counts.cached_tokens += reply.cached
        noise = factor(self.options.noise_run, self.options.seed, "request", number)
        schedule = Schedule(self.options, self.start_factor * noise)
        parts, finish = chunks(ask, self.options)
        due = last = reply.granted_ns / NS + schedule.first(ask.prompt_tokens - reply.cached)
        for part in parts:
            await self._deliver(writer, reply, part, due)
            self.counts.steps += 1
            self.counts.generation_tokens += len(part.ids)
            last, due = due, due + schedule.step(self.counts.running, time.monotonic() - self.began)
        if not ask.stream:
            await _send(writer, 200, _whole(reply, parts, finish, self.options))
            return
        self._event(writer, reply, Chunk("finish", finish), last)
        if ask.usage:
            self._event(writer, reply, Chunk("usage"), last)
        _write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _deliver(self, writer: asyncio.StreamWriter, reply: Reply, part: Chunk, due: float) -> None:
        if not reply.ask.stream:
            await _until(due)
            return
        if self.options.ping:
            await _until((time.monotonic() + due) / 2)
            _write(writer, b": ping\n\n")
        reply.sent_tokens += len(part.ids)
        data = self._data(reply, part)
        if self.options.split_events:
            await _until(due - SPLIT_S)
            half = len(data) // 2
            _write(writer, data[:half])
            data = data[half:]
        await _until(due)
        self._event(writer, reply, part, due, data)
        if writer.is_closing():
            raise ConnectionResetError

    def _event(self, writer: asyncio.StreamWriter, reply: Reply, part: Chunk, due: float, data: bytes = b"") -> None:
        """Write one event (or the rest of one) and note when."""
        data = data or self._data(reply, part)
        reply.sent.append((part.kind, len(part.ids), int(due * NS), time.monotonic_ns()))
        _write(writer, data)

    def _data(self, reply: Reply, part: Chunk) -> bytes:
        return b"data: " + json.dumps(_event_body(reply, part, self.options)).encode() + b"\n\n"

    def _tell_truth(self, reply: Reply) -> None:
        if self.truth is not None:
            line = {
                "id": reply.id, "arrival_ns": reply.arrival_ns, "granted_ns": reply.granted_ns,
                "prompt_tokens": reply.ask.prompt_tokens, "cached_tokens": reply.cached, "chunks": reply.sent,
            }  # fmt: skip
            self.truth.write(json.dumps(line) + "\n")


def _tokenize(data: dict[str, Any]) -> dict[str, Any]:
    """Both shapes: llama.cpp asks with `content`, vLLM with `prompt` or `messages`."""
    text = template(data["messages"]) if "messages" in data else str(data.get("content", data.get("prompt", "")))
    ids = tokens(text)
    return {"tokens": ids, "count": len(ids)}


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.ask.prompt_tokens,
        "completion_tokens": reply.sent_tokens,
        "total_tokens": reply.ask.prompt_tokens + reply.sent_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
    }


def _event_body(reply: Reply, part: Chunk, options: SimOptions) -> dict[str, Any]:
    ask = reply.ask
    kind = "chat.completion.chunk" if ask.chat else "text_completion"
    body: dict[str, Any] = {"id": reply.id, "object": kind, "created": 0, "model": options.served_name, "choices": []}
    if part.kind == "usage":
        return {**body, "usage": _usage(reply)}
    choice: dict[str, Any] = {"index": 0, "finish_reason": part.text if part.kind == "finish" else None}
    said = "" if part.kind == "finish" else part.text
    if ask.chat:
        deltas = {
            "role": {"role": "assistant", "content": None},
            "finish": {},
            "reasoning": {"reasoning_content": said},
        }
        choice["delta"] = deltas.get(part.kind, {"content": said})
    else:
        choice["text"] = said
    if ask.token_ids and part.ids:
        choice["token_ids"] = part.ids
    running = {"usage": _usage(reply)} if ask.running_usage and part.ids else {}
    return {**body, "choices": [choice], **running}


def _whole(reply: Reply, parts: list[Chunk], finish: str, options: SimOptions) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    reply.sent_tokens = sum(len(part.ids) for part in parts)
    content = "".join(part.text for part in parts if part.kind == "content")
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if reply.ask.chat:
        thinking = "".join(part.text for part in parts if part.kind == "reasoning")
        message = {"role": "assistant", "content": content}
        choice["message"] = {**message, "reasoning_content": thinking} if thinking else message
    else:
        choice["text"] = content
    kind = "chat.completion" if reply.ask.chat else "text_completion"
    body = {"id": reply.id, "object": kind, "created": 0, "model": options.served_name, "choices": [choice]}
    return body if options.no_usage else {**body, "usage": _usage(reply)}


async def _until(due: float) -> None:
    """Sleep until a moment of the loop's clock, which is CLOCK_MONOTONIC."""
    loop = asyncio.get_running_loop()
    if due <= loop.time():
        return
    reached: asyncio.Future[None] = loop.create_future()
    loop.call_at(due, partial(_reach, reached))
    await reached


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


async def _send(writer: asyncio.StreamWriter, status: int, body: dict[str, Any] | str) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, str) else "application/json"
    await _send_head(writer, status, kind, f"Content-Length: {len(data)}")
    writer.write(data)
    await writer.drain()


async def _send_head(writer: asyncio.StreamWriter, status: int, kind: str, length: str) -> None:
    writer.write(
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()
    )
    await writer.drain()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
