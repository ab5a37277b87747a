"""Prompts to sessions of ready request bytes."""

from collections.abc import Sequence
from itertools import groupby

from servesmith.load.http1 import Address, request_bytes
from servesmith.load.job import Ask, Session
from servesmith.units import NANOS_PER_SECOND
from servesmith.workload.base import Prompt


def sessions_of(prompts: Sequence[Prompt], address: Address, key: str) -> list[Session]:
    """One session a prompt, or the turns of one session together; in the order of the prompts.

    Turns of a session are neighbours in `prompts`.
    """
    groups = groupby(enumerate(prompts), lambda pair: pair[1].session if pair[1].session >= 0 else -1 - pair[0])
    return [Session(tuple(_ask(prompt, address, key) for _, prompt in group)) for _, group in groups]


def _ask(prompt: Prompt, address: Address, key: str) -> Ask:
    return Ask(
        prompt.index,
        request_bytes(address, prompt.path, prompt.body, key),
        prompt.prompt_tokens,
        prompt.output_tokens,
        int(prompt.think_s * NANOS_PER_SECOND) if prompt.turn else 0,
    )
