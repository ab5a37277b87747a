"""Is a server ready? Only a real token says so: a server whose /health is 200 may still be stuck."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import httpx2
import msgspec

from servesmith.units import Json, Seconds

HEALTH_S: Seconds = 2.0
"""Longest wait for an answer of a health endpoint."""


Client = httpx2.Client
OK, NOT_FOUND, NO_SUCH_METHOD = 200, 404, 405


class Probe(msgspec.Struct, frozen=True):
    """What came of asking for one token."""

    kind: Literal["token", "hang", "refused", "cut"]
    detail: str = ""
    status: int = 0


def open_client(url: str, headers: Mapping[str, str]) -> httpx2.Client:
    """A plain client. Proxies of the environment are ignored: they would stand between us and loopback."""
    encrypted = url.startswith("https:")  # else spare the loading of certificates, some 25 ms
    return httpx2.Client(base_url=url, headers=dict(headers), timeout=HEALTH_S, trust_env=False, verify=encrypted)


def health(client: httpx2.Client) -> int | None:
    """HTTP status of /health, of /v1/models where there is no /health; None if nobody answers."""
    try:
        status = client.get("/health").status_code
        return client.get("/v1/models").status_code if status == NOT_FOUND else status
    except httpx2.TransportError:
        return None


def first_token(client: httpx2.Client, limit: Seconds) -> Probe:
    """Ask for one token, streamed, and wait for it for at most `limit` seconds."""
    deadline = time.monotonic() + limit
    try:
        base: dict[str, Json] = {"model": _model(client), "max_tokens": 1, "stream": True, "temperature": 0}
        probe = _ask(client, "/v1/completions", {**base, "prompt": "Hello"}, deadline)
        if probe.status in (NOT_FOUND, NO_SUCH_METHOD):
            body: dict[str, Json] = {**base, "messages": [{"role": "user", "content": "Hello"}]}
            probe = _ask(client, "/v1/chat/completions", body, deadline)
    except httpx2.TimeoutException:
        return Probe("hang", f"no token within {limit:g} s")
    except httpx2.TransportError as error:
        return Probe("cut", f"connection lost while waiting for the first token: {error}")
    return probe


def _model(client: httpx2.Client) -> str:
    response = client.get("/v1/models")
    try:
        return str(response.json()["data"][0]["id"])
    except (json.JSONDecodeError, KeyError, IndexError, TypeError):
        return ""


def _ask(client: httpx2.Client, path: str, body: dict[str, Json], deadline: float) -> Probe:
    remaining = max(0.1, deadline - time.monotonic())
    with client.stream("POST", path, json=body, timeout=remaining) as response:
        if response.status_code != OK:
            said = response.read()[:200].decode(errors="replace")
            return Probe("refused", f"{path} answered {response.status_code}: {said}", response.status_code)
        for event in _events(response, deadline):
            if carries_token(event):
                return Probe("token")
    return Probe("refused", f"{path} ended its stream without a token")


def _events(response: httpx2.Response, deadline: float) -> Iterator[str]:
    """Data lines of the stream. Raises ReadTimeout past the deadline, also when pings keep the line busy."""
    pending = b""
    for piece in response.iter_bytes():
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode(errors="replace")
        if time.monotonic() > deadline:
            raise httpx2.ReadTimeout("past the deadline", request=response.request)


def carries_token(event: str) -> bool:
    """True if a completion chunk shows that the model generated: text, reasoning, a tool call, or a finish reason."""
    try:
        choice: Any = json.loads(event)["choices"][0]
    except (json.JSONDecodeError, KeyError, IndexError, TypeError):
        return False
    delta: Any = choice.get("delta") or {}
    said = choice.get("text"), *(delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls"))
    return any(said) or choice.get("finish_reason") is not None
