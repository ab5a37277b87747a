"""The nouns of asking: a prompt ready to be sent, and who counts its tokens."""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

ServerKind = Literal["openai", "llamacpp", "vllm", "sglang", "sim"]
"""What answers, as far as request fields differ; `openai`: anything that speaks the API."""


Message = dict[str, Any]
"""One message of a chat: role and content."""


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
    """Prompts of one session are neighbours, and each waits for the answer to the one before; -1: it stands alone."""
    turn: int = 0
    """Place in its session, from 0."""
    think_s: float = 0.0
    """Pause between the answer to the turn before and this request, in seconds."""

    def digest(self) -> str:
        """What is asked: SHA-256 of path and body, first 16 hex digits."""
        return hashlib.sha256(self.path.encode() + b"\0" + self.body).hexdigest()[:16]


class PromptSet(msgspec.Struct, frozen=True):
    """Prompts, and what is known of them as a whole."""

    prompts: tuple[Prompt, ...]
    counted: int
    """How many the server itself counted; the others follow from its counts of the single words."""
    cached_share: float = 0.0
    """Prompt tokens that a server can have in its prefix cache, of all prompt tokens: if it forgets nothing, answers in
    order, and keeps single tokens. Real ones keep whole blocks, and evict."""
    notes: tuple[str, ...] = ()
    """What was not as the workload asked, for the doubts."""


class Tokenizer(Protocol):
    """The server's own tokenizer."""

    def count_chat(self, text: str) -> int:
        """Prompt tokens of one user message, chat template included."""
        ...

    def count_messages(self, messages: Sequence[Message]) -> int:
        """Prompt tokens of a whole chat, chat template included."""
        ...

    def count_text(self, text: str) -> int:
        """Prompt tokens of a plain text, with whatever the server puts before it."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text alone, without special tokens."""
        ...
