"""Ask a server what it is, what it says of itself and how it counts tokens. Never used while a load runs."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import httpx2
import msgspec

from servesmith.errors import MachineError
from servesmith.load.client import CHAT
from servesmith.load.http1 import Address
from servesmith.units import Seconds
from servesmith.workload.base import Message, ServerKind

Answer = TypeVar("Answer")
Fields = Mapping[str, Any]
"""Fields of a request body."""

COMPLETIONS = "/v1/completions"
_OWNERS: dict[str, ServerKind] = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "sim": "sim",
    "servesmith-sim": "sim",
    "servesmith": "sim",
}


@dataclass(frozen=True)
class Identity:
    """What answers at an address: the model names it serves, and what kind of server it says it is."""

    models: tuple[str, ...]
    owner: str
    kind: ServerKind

    @property
    def model(self) -> str:
        """The name to ask for: the first one served."""
        return self.models[0] if self.models else ""


class _Model(msgspec.Struct):
    id: str
    owned_by: str = ""


class _Models(msgspec.Struct):
    data: list[_Model] = []


def identify(url: str, *, key: str = "", timeout_s: Seconds = 10.0) -> Identity:
    """Read `/v1/models`. Raises MachineError, which says what keeps it from answering, if it gives no models."""
    try:
        with _client(url, key, timeout_s) as client:
            response = client.get("/v1/models")
    except httpx2.HTTPError as error:
        raise _unreachable(url, error, timeout_s) from error
    if response.status_code != 200:
        raise _refusing(url, response.status_code)
    try:
        models = msgspec.json.decode(response.content, type=_Models).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        models = []
    if not models:
        raise MachineError(
            f"{url} does not answer /v1/models with a list of models.",
            "Check that it is a server with the OpenAI API, and that it has finished loading.",
        )
    owner = models[0].owned_by
    return Identity(tuple(model.id for model in models), owner, _OWNERS.get(owner.lower(), "openai"))


def _unreachable(url: str, error: httpx2.HTTPError, timeout_s: Seconds) -> MachineError:
    """Nobody there, no such host, no answer: each has another remedy."""
    address = Address.parse(url)
    match _root(error):
        case socket.gaierror():
            return MachineError(f"There is no host {address.host}.", "Check how it is written, or give its IP address.")
        case ConnectionRefusedError():
            message = f"Nothing listens at {address.host}, port {address.port}."
            return MachineError(message, "Check the port, that the server is up, and where it listens.")
        case TimeoutError():
            message = f"{url} does not answer /v1/models within {timeout_s:g} s."
            return MachineError(message, "Check the address, and that no firewall lies between.")
        case _:
            return MachineError(f"{url} cannot be reached: {error}.", "Check the address and whether it is https.")


def _root(error: BaseException) -> BaseException:
    """What the system said: the client wraps it, as a cause or as an argument."""
    if isinstance(error, httpx2.TimeoutException):
        return TimeoutError()
    inner = error.__cause__ or next((arg for arg in error.args if isinstance(arg, BaseException)), None)
    return _root(inner) if inner is not None else error


def _refusing(url: str, status: int) -> MachineError:
    said = f"{url} answers /v1/models with HTTP {status}"
    if status in (401, 403):
        remedy = "Name the variable that holds it: --key-env, or key_env in a recipe."
        return MachineError(f"{said}: it wants another bearer key.", remedy)
    if status == 404:
        return MachineError(f"{said}: it is no server with the OpenAI API.", "Check address, port and path.")
    return MachineError(f"{said}.", "Check that the server has finished loading, and what its log says.")


def properties(url: str, paths: Iterable[str], *, key: str = "", timeout_s: Seconds = 10.0) -> dict[str, Any]:
    """Path to parsed JSON body of every path that answers 200 with JSON; the others are left out."""
    found: dict[str, Any] = {}
    with _client(url, key, timeout_s) as client:
        for path in paths:
            try:
                response = client.get(path)
                if response.status_code == 200:
                    found[path] = response.json()
            except (httpx2.HTTPError, ValueError):
                continue
    return found


def _client(url: str, key: str, timeout_s: Seconds) -> httpx2.Client:
    Address.parse(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # Like the load itself, never through a proxy of the environment.
    return httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s, trust_env=False)


class ServerTokenizer:
    """The server's own tokenizer over HTTP: the `Tokenizer` that prompts are built with.

    How it counts is found out once, by trying: llama.cpp's `/apply-template` and `/tokenize`, vLLM's
    `/tokenize`, else the `usage` of requests for a single token. `how` names it.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        key: str = "",
        timeout_s: Seconds = 60.0,
        template: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`template` is given to the chat template, as `chat_template_kwargs`. Raises MachineError if no way to count
        works."""
        self._client = _client(url, key, timeout_s)
        named = {"model": model} if model else {}
        chat = {"chat_template_kwargs": dict(template)} if template else {}
        ways: tuple[_Way, ...] = (
            _LlamaCpp(self._client, chat),
            _Vllm(self._client, named, chat),
            _Usage(self._client, named, chat),
        )
        self._way = next((way for way in ways if _works(way)), None)
        if self._way is None:
            self.close()
            raise MachineError(
                f"{url} counts no tokens: no /tokenize, and no usage in its answers.",
                "Check the model name and the bearer key; exact prompt lengths need one of the two.",
            )
        self.how = self._way.name

    def count_chat(self, text: str) -> int:
        """Prompt tokens of one user message, chat template included."""
        return self._counter.count_messages(_messages(text))

    def count_messages(self, messages: Sequence[Message]) -> int:
        """Prompt tokens of a whole chat, chat template included."""
        return self._counter.count_messages(messages)

    def count_text(self, text: str) -> int:
        """Prompt tokens of a plain text, with whatever the server puts before it."""
        return self._counter.count_text(text)

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text alone. Raises MachineError if the server gives none."""
        return self._counter.tokenize(text)

    def count_alone(self, text: str) -> int:
        """Tokens of a piece of output, for counting chunks again."""
        return len(self.tokenize(text))

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    @property
    def _counter(self) -> "_Way":
        assert self._way is not None
        return self._way


class _Way(Protocol):
    """One way in which servers count."""

    name: str

    def count_messages(self, messages: Sequence[Message]) -> int: ...
    def count_text(self, text: str) -> int: ...
    def tokenize(self, text: str) -> list[int]: ...


def _works(way: _Way) -> bool:
    try:
        return way.count_messages(_messages("hello there")) > 0
    except MachineError:
        return False


def _post(client: httpx2.Client, path: str, body: dict[str, Any], kind: type[Answer]) -> Answer:
    """POST and read the answer as `kind`. Raises MachineError if it is not that, or not status 200."""
    remedy = "Check that the server is up and what it said in its log."
    try:
        response = client.post(path, json=body)
    except httpx2.HTTPError as error:
        raise MachineError(f"{client.base_url}: POST {path} failed: {error}.", remedy) from error
    if response.status_code != 200:
        raise MachineError(f"{client.base_url}: POST {path}: HTTP {response.status_code}: {response.text:.200}", remedy)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"{client.base_url}: POST {path}: not the expected answer: {error}.", remedy) from error


class _Template(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _PromptTokens(msgspec.Struct):
    prompt_tokens: int


class _Answer(msgspec.Struct):
    usage: _PromptTokens


def _messages(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


class _LlamaCpp:
    """`/apply-template` gives the text of a chat prompt, `/tokenize` its ids."""

    name = "tokenize and apply-template"

    def __init__(self, client: httpx2.Client, chat: Fields) -> None:
        self._client = client
        self._chat = chat

    def count_messages(self, messages: Sequence[Message]) -> int:
        filled = _post(self._client, "/apply-template", {"messages": messages, **self._chat}, _Template)
        return len(self._ids(filled.prompt, special=True))

    def count_text(self, text: str) -> int:
        return len(self._ids(text, special=True))

    def tokenize(self, text: str) -> list[int]:
        return self._ids(text, special=False)

    def _ids(self, text: str, *, special: bool) -> list[int]:
        body = {"content": text, "add_special": special, "parse_special": special}
        return _post(self._client, "/tokenize", body, _Tokens).tokens


class _Vllm:
    """`/tokenize` takes messages or a prompt."""

    name = "tokenize"

    def __init__(self, client: httpx2.Client, model: Fields, chat: Fields) -> None:
        self._client = client
        self._model = model
        self._chat = chat

    def count_messages(self, messages: Sequence[Message]) -> int:
        body = {**self._model, "messages": messages, "add_generation_prompt": True, **self._chat}
        return len(_post(self._client, "/tokenize", body, _Tokens).tokens)

    def count_text(self, text: str) -> int:
        return len(self._ids(text, special=True))

    def tokenize(self, text: str) -> list[int]:
        return self._ids(text, special=False)

    def _ids(self, text: str, *, special: bool) -> list[int]:
        body = {**self._model, "prompt": text, "add_special_tokens": special}
        return _post(self._client, "/tokenize", body, _Tokens).tokens


class _Usage:
    """`usage.prompt_tokens` of a request for one token.

    A word is put before each text and its tokens are taken off again, so that the very prompt is not in
    the server's prefix cache when it is measured.
    """

    name = "usage of one-token requests"
    _SALT = "Count this. "
    _SAMPLE = "Hello there"

    def __init__(self, client: httpx2.Client, model: Fields, chat: Fields) -> None:
        self._client = client
        self._model = model
        self._chat = chat
        self._salt_tokens: dict[str, int] = {}

    def count_messages(self, messages: Sequence[Message]) -> int:
        first, *others = messages
        content = first.get("content")
        if not isinstance(content, str):  # parts: images and the like
            return self._ask(CHAT, self._chat_of(messages))
        salted = {**first, "content": f"{self._SALT}{content}"}
        return self._ask(CHAT, self._chat_of([salted, *others])) - self._salt(CHAT)

    def count_text(self, text: str) -> int:
        return self._ask(COMPLETIONS, {"prompt": self._SALT + text}) - self._salt(COMPLETIONS)

    def tokenize(self, text: str) -> list[int]:
        raise MachineError(
            "The server gives no token ids: it has no /tokenize.", "Use text: words, or a server that has it."
        )

    def _salt(self, path: str) -> int:
        if path not in self._salt_tokens:
            salted, plain = (
                self._ask(path, self._chat_of(_messages(text)) if path == CHAT else {"prompt": text})
                for text in (self._SALT + self._SAMPLE, self._SAMPLE)
            )
            self._salt_tokens[path] = salted - plain
        return self._salt_tokens[path]

    def _chat_of(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {"messages": messages, **self._chat}

    def _ask(self, path: str, asked: dict[str, Any]) -> int:
        body = {**self._model, **asked, "max_tokens": 1, "temperature": 0}
        return _post(self._client, path, body, _Answer).usage.prompt_tokens
