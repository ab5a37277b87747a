"""Prompts out of a file of texts or chats, as they are; their lengths are the server's own count.

JSONL: one object a line, with `prompt` (a text) or `messages` (a chat, as in a request), and `output_tokens` if the
request has a length of its own; other keys are passed over. ShareGPT, as in
https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered: a JSON list of objects with `conversations`,
a list of {from, value}. Like `vllm bench serve --dataset-name sharegpt` we ask the first question of each and want an
answer as long as the recorded one.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.recipe.model import Dataset, Workload
from servesmith.workload.base import Message, PromptSet, Tokenizer
from servesmith.workload.bodies import Bodies
from servesmith.workload.fit import frame_of
from servesmith.workload.lengths import draw
from servesmith.workload.plan import Plan
from servesmith.workload.words import WORDS

_HUMAN = ("human", "user")
_ANSWERS = ("gpt", "chatgpt", "assistant", "bing", "bard")


class Item(msgspec.Struct, frozen=True):
    """One request of a file."""

    prompt: str = ""
    chat: bytes = b""
    """Messages as JSON; empty: `prompt` is the text."""
    output_tokens: int = 0
    """0: as the workload says."""
    answer: str = ""
    """Recorded; its length is asked for."""


def from_file(bodies: Bodies, tokenizer: Tokenizer, seed: int, count: int) -> PromptSet:
    """`count` prompts out of the file; when they run out, they begin again, and `notes` says how many repeat.

    Raises InputError with file and line if the file is not of its format, or holds nothing that the API can ask.
    """
    workload = bodies.workload
    assert workload.dataset is not None
    items, notes = read_items(workload.dataset)
    if workload.api == "completions" and any(item.chat for item in items):
        message = f"{workload.dataset.path} holds chats, which the completions API cannot ask."
        raise InputError(Problem(message, "Set api: chat, or give texts.", field="workload.api"))
    size = _Sizes(workload, tokenizer)
    outputs = _outputs(workload, seed, count)
    prompts = [
        bodies.prompt(
            Plan(index, size.prompt(items[place]), size.answer(items[place]) or outputs[index]),
            _chat(items[place]) if items[place].chat else items[place].prompt,
        )
        for index, place in enumerate(_order(len(items), workload.dataset, seed, count))
    ]
    if count > len(items):
        repeated = f"{count - len(items)} of {count} prompts repeat one of the file's {len(items)}"
        notes = (*notes, f"{repeated}, so a prefix cache may have served them")
    again = sum(prompt.prompt_tokens for prompt in prompts[len(items) :])
    share = again / max(1, sum(prompt.prompt_tokens for prompt in prompts))
    return PromptSet(tuple(prompts), min(count, len(items)), share, notes)


def read_items(dataset: Dataset) -> tuple[list[Item], tuple[str, ...]]:
    """The requests of a file in its order, and what was passed over. Raises InputError."""
    path = Path(dataset.path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Problem(f"Is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.", str(path))) from None
    except OSError as error:
        raise InputError(Problem(f"Cannot be read: {error.strerror}.", "Check the path.", str(path))) from None
    kind = dataset.format if dataset.format != "auto" else "sharegpt" if text.lstrip()[:1] == "[" else "jsonl"
    items, notes = _sharegpt(text, path) if kind == "sharegpt" else (list(_jsonl(text, path)), ())
    if not items:
        raise InputError(Problem("Has no request in it.", "Give a file with at least one.", str(path)))
    return items, notes


# --- reading


class _Line(msgspec.Struct):
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    output_tokens: int = 0


def _jsonl(text: str, path: Path) -> Iterator[Item]:
    decoder = msgspec.json.Decoder(_Line)
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        try:
            line = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeError) as error:
            message = f"Is no request: {error}."
            remedy = 'Write {"prompt": "..."} or {"messages": [...]}, each on a line of its own.'
            raise InputError(Problem(message, remedy, str(path), number)) from None
        yield _item(line, path, number)


def _item(line: _Line, path: Path, number: int) -> Item:
    if bool(line.prompt) == bool(line.messages):
        message = "Has both `prompt` and `messages`." if line.prompt else "Has neither `prompt` nor `messages`."
        raise InputError(Problem(message, "Give one of the two, not empty.", str(path), number))
    if line.output_tokens < 0:
        raise InputError(Problem("output_tokens is negative.", "Correct or delete it.", str(path), number))
    chat = msgspec.json.encode(line.messages) if line.messages else b""
    return Item(line.prompt or "", chat, line.output_tokens)


class _Turn(msgspec.Struct):
    value: str | None = None
    speaker: str = msgspec.field(name="from", default="")


class _Conversation(msgspec.Struct):
    conversations: list[_Turn] = []


def _sharegpt(text: str, path: Path) -> tuple[list[Item], tuple[str, ...]]:
    try:
        talks = msgspec.json.decode(text, type=list[_Conversation])
    except (msgspec.DecodeError, UnicodeError) as error:
        remedy = "Give a JSON list of objects with `conversations`, or name another format."
        raise InputError(Problem(f"Is no ShareGPT file: {error}.", remedy, str(path))) from None
    items = [item for talk in talks if (item := _first_exchange(talk)) is not None]
    left = len(talks) - len(items)
    notes = (f"{left} of {len(talks)} conversations do not begin with a question and its answer: left out",)
    return items, notes if left else ()


def _first_exchange(talk: _Conversation) -> Item | None:
    turns = [turn for turn in talk.conversations if turn.speaker != "system"][:2]
    if [turn.speaker in group for turn, group in zip(turns, (_HUMAN, _ANSWERS), strict=False)] != [True, True]:
        return None
    question, answer = (turn.value or "" for turn in turns)
    return Item(prompt=question, answer=answer) if question.strip() and answer.strip() else None


# --- asking


def _outputs(workload: Workload, seed: int, count: int) -> Sequence[int]:
    lengths = workload.output_lengths
    return draw(lengths, "output", seed, count) if lengths else [workload.output_tokens] * count


def _order(size: int, dataset: Dataset, seed: int, count: int) -> Iterator[int]:
    """All items once, then all again in another order."""
    for lap in range(-(-count // size)):
        places = list(range(size))
        if dataset.shuffle:
            random.Random(f"{seed}/dataset/{lap}").shuffle(places)
        yield from places[: count - lap * size]


def _chat(item: Item) -> list[Message]:
    return msgspec.json.decode(item.chat, type=list[Message])


class _Sizes:
    """Lengths by the server's count, each asked for once."""

    def __init__(self, workload: Workload, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text: Callable[[str], int] = tokenizer.count_chat if workload.api == "chat" else tokenizer.count_text
        self._frame: int | None = None
        self.prompt = cache(self._prompt)
        self.answer = cache(self._answer)

    def _prompt(self, item: Item) -> int:
        """Prompt tokens, chat template included."""
        return self._tokenizer.count_messages(_chat(item)) if item.chat else self._text(item.prompt)

    def _answer(self, item: Item) -> int:
        """Tokens to ask for; 0: the item does not say."""
        if item.output_tokens or not item.answer:
            return item.output_tokens
        if self._frame is None:
            self._frame = frame_of(self._text, *WORDS[:2])
        return max(1, self._text(item.answer) - self._frame)
