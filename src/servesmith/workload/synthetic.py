"""Prompts of exact length out of seeded words or token ids.

Each prompt begins with words that no other prompt of the set begins with, so that a server's prefix cache
cannot serve it. Two things before them are shared all the same: what the chat template puts first (a system
prompt, a few tens of tokens, unavoidable) and a shared prefix where the workload asks for one.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Workload
from servesmith.workload.base import Prompt, ServerKind, Tokenizer
from servesmith.workload.words import WORDS

NONCE = 3
"""Words, or token ids, at the front that are unique to a prompt: enough for len(WORDS)**3 prompts."""
_TRIES = 60
_POOL_WORDS = 600

_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
_RUNNING_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
_LENGTH_FIELDS: dict[ServerKind, dict[str, Any]] = {
    "openai": {"ignore_eos": True},
    # The running count makes tokens per chunk exact: a character of several tokens comes as one chunk.
    "llamacpp": {"ignore_eos": True, "timings_per_token": True},
    "vllm": {"ignore_eos": True, **_RUNNING_USAGE},
    "sglang": {"ignore_eos": True, **_RUNNING_USAGE},
    "sim": {"ignore_eos": True, **_RUNNING_USAGE},
}


def build(
    workload: Workload,
    tokenizer: Tokenizer,
    seed: int,
    count: int,
    *,
    model: str = "",
    server: ServerKind = "openai",
) -> tuple[Prompt, ...]:
    """`count` prompts, each of exactly `workload.prompt_tokens` by `tokenizer`; equal seeds give equal prompts.

    Raises InputError if the lengths cannot be met (it names the shortest that can), MachineError if the
    server does not count.
    """
    if workload.text == "ids":
        contents: Sequence[Any] = _id_prompts(workload, tokenizer, seed, count)
    else:
        contents = _texts(workload, tokenizer, seed, count)
    path = _PATHS[workload.api]
    return tuple(
        Prompt(index, _body(workload, content, model, server), workload.prompt_tokens, workload.output_tokens, path)
        for index, content in enumerate(contents)
    )


def _body(workload: Workload, content: str | list[int], model: str, server: ServerKind) -> bytes:
    """The JSON body: an answer of exactly `output_tokens`, streamed, with usage at its end.

    A field of `workload.extra` replaces ours; null takes it away.
    """
    asked = {"messages": [{"role": "user", "content": content}]} if workload.api == "chat" else {"prompt": content}
    fields: dict[str, Any] = {
        "model": model or None,
        **asked,
        "max_tokens": workload.output_tokens,
        "temperature": workload.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_LENGTH_FIELDS[server],
        **({"min_tokens": workload.output_tokens} if server == "vllm" else {}),
        **workload.extra,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def _texts(workload: Workload, tokenizer: Tokenizer, seed: int, count: int) -> list[str]:
    words = list(WORDS)
    random.Random(f"{seed}/nonce").shuffle(words)
    count_tokens = tokenizer.count_chat if workload.api == "chat" else tokenizer.count_text
    frame = count_tokens(words[0]) + count_tokens(words[1]) - count_tokens(f"{words[0]} {words[1]}")
    if workload.prompt_tokens < frame + workload.shared_prefix_tokens + NONCE:
        raise _too_small(workload, frame)
    shared_length = workload.shared_prefix_tokens + frame
    shared = (
        _fit([], shared_length, frame, count_tokens, random.Random(f"{seed}/shared")) if shared_length > frame else []
    )
    return [
        " ".join(
            _fit(
                [*shared, *_nonce(words, index)],
                workload.prompt_tokens,
                frame,
                count_tokens,
                random.Random(f"{seed}/{index}"),
            )
        )
        for index in range(count)
    ]


def _too_small(workload: Workload, frame: int) -> InputError:
    least = frame + workload.shared_prefix_tokens + NONCE
    return InputError(
        Problem(
            f"{workload.prompt_tokens} prompt tokens are too few: what the server puts around a prompt takes {frame}, "
            f"the shared prefix {workload.shared_prefix_tokens}, the words that make a prompt unique {NONCE}.",
            f"Set prompt_tokens to {least} or more.",
            field="workload.prompt_tokens",
        )
    )


def _nonce(symbols: Sequence[Any], index: int) -> list[Any]:
    """`index` as digits of base len(symbols), the fastest changing first: neighbours differ at once."""
    digits: list[Any] = []
    for _ in range(NONCE):
        index, digit = divmod(index, len(symbols))
        digits.append(symbols[digit])
    return digits


def _fit(
    head: Sequence[str], target: int, frame: int, count_tokens: Callable[[str], int], rng: random.Random
) -> list[str]:
    """`head` with random words behind it, exactly `target` tokens. Raises InputError if none is found.

    A common word is one token in nearly every vocabulary, so the first try mostly fits; else words are added
    or taken away by what a word was seen to take, and the last one is drawn anew where it stands in the way.
    """
    words = [*head, *rng.choices(WORDS, k=max(0, target - frame - len(head)))]
    for _ in range(_TRIES):
        tokens = count_tokens(" ".join(words))
        if tokens == target:
            return words
        if tokens > target and len(words) == len(head):
            raise _unmet(target, f"Set it to {tokens} or more.")
        a_word = max(1.0, (tokens - frame) / max(1, len(words)))
        step = max(1, round(abs(target - tokens) / a_word))
        if tokens < target:
            words = [*words, *rng.choices(WORDS, k=step)]
        else:
            words = [*words[: max(len(head), len(words) - step - 1)], rng.choice(WORDS)]
    raise _unmet(target, "Set it a little higher or lower.")


def _unmet(target: int, remedy: str) -> InputError:
    message = f"No prompt of exactly {target} tokens was found with the server's tokenizer."
    return InputError(Problem(message, remedy, field="workload.prompt_tokens"))


def _id_prompts(workload: Workload, tokenizer: Tokenizer, seed: int, count: int) -> list[list[int]]:
    """Random ids out of those that ordinary and made-up words have: never a special token, always in the vocabulary."""
    if workload.api != "completions":
        raise InputError(
            Problem(
                "Token ids can only be sent to the completions API.", "Set api: completions.", field="workload.text"
            )
        )
    if workload.prompt_tokens < workload.shared_prefix_tokens + NONCE:
        raise _too_small(workload, 0)
    rng = random.Random(f"{seed}/ids")
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
    made_up = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(_POOL_WORDS)]
    pool = sorted(set(tokenizer.tokenize(" ".join([*WORDS, *made_up]))))
    rng.shuffle(pool)
    shared = rng.choices(pool, k=workload.shared_prefix_tokens)
    rest = workload.prompt_tokens - len(shared) - NONCE
    return [[*shared, *_nonce(pool, index), *rng.choices(pool, k=rest)] for index in range(count)]
