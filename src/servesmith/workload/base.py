"""The nouns of asking: a prompt ready to be sent, and who counts its tokens."""

from typing import Literal, Protocol

import msgspec

ServerKind = Literal["openai", "llamacpp", "vllm", "sglang", "sim"]
"""What answers, as far as request fields differ; `openai`: anything that speaks the API."""


class Prompt(msgspec.Struct, frozen=True):
    """One request body with its exact lengths."""

    index: int
    body: bytes
    """JSON, ready to be sent."""
    prompt_tokens: int
    """By the server's own tokenizer, chat template included."""
    output_tokens: int
    """Forced length of the answer."""
    path: str = "/v1/chat/completions"
    session: int = -1
    """Requests of one session follow each other and are neighbours; -1: it stands alone."""
    turn: int = 0
    think_s: float = 0.0
    """Pause of the user between the answer to the turn before and this one."""


class Tokenizer(Protocol):
    """The server's own tokenizer."""

    def count_chat(self, text: str) -> int:
        """Prompt tokens of one user message, chat template included."""
        ...

    def count_text(self, text: str) -> int:
        """Prompt tokens of a plain text, with whatever the server puts before it."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text alone, without special tokens."""
        ...
