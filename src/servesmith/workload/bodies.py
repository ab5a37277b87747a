"""The JSON body of a request: an answer of exact length, streamed, with usage at its end."""

from typing import Any

import msgspec

from servesmith.recipe.model import Workload
from servesmith.workload.base import Message, Prompt, ServerKind
from servesmith.workload.plan import Plan

Content = str | list[int] | list[Message]
"""A text, token ids, or the messages of a chat."""

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
_RUNNING_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
_LENGTH_FIELDS: dict[ServerKind, dict[str, Any]] = {
    "openai": {"ignore_eos": True},
    # The running count makes tokens per chunk exact: a character of several tokens comes as one chunk.
    "llamacpp": {"ignore_eos": True, "timings_per_token": True},
    "vllm": {"ignore_eos": True, **_RUNNING_USAGE},
    "sglang": {"ignore_eos": True, **_RUNNING_USAGE},
    "sim": {"ignore_eos": True, **_RUNNING_USAGE},
}


class Bodies(msgspec.Struct, frozen=True):
    """Makes prompts for one workload on one server."""

    workload: Workload
    model: str
    server: ServerKind

    def prompt(self, plan: Plan, content: Content) -> Prompt:
        """The request that was planned, with its content."""
        return Prompt(
            index=plan.index,
            body=self._body(content, plan.output_tokens),
            prompt_tokens=plan.prompt_tokens,
            output_tokens=plan.output_tokens,
            path=PATHS[self.workload.api],
            session=plan.session,
            turn=plan.turn,
            think_s=plan.think_s,
        )

    def _body(self, content: Content, output_tokens: int) -> bytes:
        """A field of `workload.extra` replaces ours; null takes it away."""
        workload = self.workload
        if workload.api == "chat":
            asked: dict[str, Any] = {"messages": [user(content)] if isinstance(content, str) else content}
        else:
            asked = {"prompt": content}
        fields: dict[str, Any] = {
            "model": self.model or None,
            **asked,
            "max_tokens": output_tokens,
            "temperature": workload.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": workload.chat_template_kwargs or None,
            **_LENGTH_FIELDS[self.server],
            **({"min_tokens": output_tokens} if self.server == "vllm" else {}),
            **workload.extra,
        }
        return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def user(text: str) -> Message:
    """A message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """An answer, as it stands in a later request."""
    return {"role": "assistant", "content": text}
