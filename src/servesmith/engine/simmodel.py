"""The sim engine's model: what it answers, how it counts tokens and when each chunk is due. Pure.

Tokens are whitespace-separated words. The chat template adds `TEMPLATE_TOKENS`. The same prompt always gets the same
answer, whatever start of whatever server is asked.
"""

import hashlib
import math
import random
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal

from servesmith.engine.jsonview import as_list, as_map

TEMPLATE_TOKENS = 4
VOCABULARY = 32_000
MARK = "ANSWER="
"""The text after its last occurrence in the prompt is the answer: a model that is always right, for gate tests."""
_WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "jasper", "kelp", "lark",
    "maple", "north", "ocean", "pebble", "quartz", "river", "slate", "tulip", "umber", "vale", "willow", "zephyr",
)  # fmt: skip


def _about(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True)
class SimOptions:
    """Everything that can be set; each field is a flag of the same name. Times are what one stream alone sees."""

    port: int = field(default=0, metadata=_about("port of loopback; 0: any"))
    host: str = field(default="127.0.0.1", metadata=_about("address to listen on"))
    model_name: str = field(default="sim", metadata=_about("model name that is served"))
    ctx: int = field(default=8192, metadata=_about("longest prompt plus output in tokens"))
    ttft_ms: float = field(default=50.0, metadata=_about("from a free slot to the first token"))
    prefill_ms_per_token: float = field(default=0.0, metadata=_about("added to it for each prompt token not cached"))
    gap_ms: float = field(default=10.0, metadata=_about("between chunks, one stream alone"))
    slope: float = field(default=0.0, metadata=_about("the gap grows by this share for each further active stream"))
    drift: float = field(default=0.0, metadata=_about("the gap grows by this share for each minute since the start"))
    leak_mib: float = field(default=0.0, metadata=_about("memory that each request takes and never gives back"))
    slots: int = field(default=4, metadata=_about("streams at once; more wait in order"))
    tokens_per_chunk: int = field(default=1, metadata=_about("tokens that come together, as under speculation"))
    no_role_chunk: bool = field(default=False, metadata=_about("no early chunk that carries only the role"))
    no_usage: bool = field(default=False, metadata=_about("never send usage"))
    reasoning_first: int = field(default=0, metadata=_about("tokens sent as reasoning_content before the content"))
    ping: bool = field(default=False, metadata=_about("an SSE comment half way before each chunk"))
    split_events: bool = field(default=False, metadata=_about("each event in two writes, the first 1 ms early"))
    close_keepalive_after: int = field(default=0, metadata=_about("close a connection after this many answers"))
    keepalive_idle_s: float = field(default=0.0, metadata=_about("close a connection that idles this long"))
    error_rate: float = field(default=0.0, metadata=_about("share of requests answered 500"))
    noise_restart: float = field(default=0.0, metadata=_about("sd of the log of one speed factor per start"))
    noise_run: float = field(default=0.0, metadata=_about("sd of the log of one speed factor per request"))
    seed: int = field(default=0, metadata=_about("of all that is random"))
    start: int = field(default=-1, metadata=_about("number of this start; -1: SERVESMITH_SEED, else at random"))
    hang_after: int = field(default=-1, metadata=_about("no token after this many requests, the readiness test counts"))
    hang_from_start: bool = field(default=False, metadata=_about("healthy, but never a token"))
    crash_after: int = field(default=-1, metadata=_about("die of SIGSEGV at the request after this many"))
    crash_at_start: bool = field(default=False, metadata=_about("exit 1 with a traceback"))
    cold_start: float = field(default=0.0, metadata=_about("more of it while SIM_CACHE_DIR holds no mark of a start"))
    slow_start: float = field(default=0.0, metadata=_about("seconds of /health 503"))
    oom_at_start: bool = field(default=False, metadata=_about("exit 1, out of memory"))
    wrong_model: str = field(default="", metadata=_about("report this model name instead"))
    answers_wrong: float = field(default=0.0, metadata=_about("share of marked answers that are wrong"))
    truth: str = field(default="", metadata=_about("file for what was really sent and when, JSON lines"))
    connections: int = field(default=900, metadata=_about("above 900 timers are exact to 1 ms only"))

    @property
    def served_name(self) -> str:
        """Name that is reported."""
        return self.wrong_model or self.model_name


Kind = Literal["role", "content", "reasoning", "finish", "usage"]


@dataclass(frozen=True)
class Chunk:
    """One SSE event of an answer."""

    kind: Kind
    text: str = ""
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ask:
    """What a request wants, read from its body."""

    prompt: str
    prompt_tokens: int
    chat: bool
    stream: bool
    limit: int
    exact: bool
    """ignore_eos: exactly `limit` tokens."""
    usage: bool
    token_ids: bool
    running_usage: bool


class BadRequest(Exception):
    """The body cannot be served; answered 400."""


def tokens(text: str) -> list[int]:
    """Token ids of a text."""
    return [zlib.crc32(word.encode()) % VOCABULARY for word in text.split()]


def template(messages: object) -> str:
    """The prompt that a chat becomes. Raises BadRequest."""
    contents = [as_map(message).get("content") for message in as_list(messages)]
    if not contents or not all(isinstance(content, str) for content in contents):
        raise BadRequest("messages must be a list, each with a content of type string")
    return f"<s> <chat> {' '.join(map(str, contents))} </chat> <assistant>"


def read_ask(body: dict[str, Any], options: SimOptions, *, chat: bool) -> Ask:
    """Raises BadRequest."""
    prompt: object = template(body.get("messages")) if chat else body.get("prompt", "")
    if ids := as_list(prompt):
        if not all(isinstance(item, int) for item in ids):
            raise BadRequest("prompt must be a string or one list of token ids")
        prompt = " ".join(f"#{item}" for item in ids)
    count = len(str(prompt).split())
    limit: object = body.get("max_completion_tokens") or body.get("max_tokens") or 64
    if not isinstance(limit, int) or limit < 1:
        raise BadRequest("max_tokens must be a whole number of at least 1")
    if count + limit > options.ctx:
        raise BadRequest(f"{count} prompt tokens and {limit} output tokens exceed the context of {options.ctx}")
    stream_options = as_map(body.get("stream_options"))
    return Ask(
        prompt=str(prompt),
        prompt_tokens=count,
        chat=chat,
        stream=bool(body.get("stream")),
        limit=limit,
        exact=bool(body.get("ignore_eos")),
        usage=bool(stream_options.get("include_usage")) and not options.no_usage,
        token_ids=bool(body.get("return_token_ids")),
        running_usage=bool(stream_options.get("continuous_usage_stats")) and not options.no_usage,
    )


def unit(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but `parts`."""
    digest = hashlib.blake2b("\0".join(str(part) for part in parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def answer(ask: Ask, options: SimOptions) -> tuple[list[str], str]:
    """The words of the answer and its finish reason."""
    rng = random.Random(ask.prompt)
    if MARK in ask.prompt:
        marked = ask.prompt.rpartition(MARK)[2].removesuffix(" </chat> <assistant>").split()
        wrong = unit(options.seed, "answer", ask.prompt) < options.answers_wrong
        words = ["not", *marked] if wrong else marked
    else:
        words = [rng.choice(_WORDS) for _ in range(16 + rng.randrange(48))]
    if ask.exact:
        words += [rng.choice(_WORDS) for _ in range(ask.limit - len(words))]
    return words[: ask.limit], "length" if ask.exact or len(words) > ask.limit else "stop"


def chunks(ask: Ask, options: SimOptions) -> tuple[list[Chunk], str]:
    """The token chunks of an answer in order, and its finish reason."""
    words, finish = answer(ask, options)
    thinking = min(options.reasoning_first, len(words)) if ask.chat else 0
    parts: list[Chunk] = []
    for kind, first, last in (("reasoning", 0, thinking), ("content", thinking, len(words))):
        for at in range(first, last, options.tokens_per_chunk):
            group = words[at : min(at + options.tokens_per_chunk, last)]
            text = ("" if at == first else " ") + " ".join(group)
            parts.append(Chunk("reasoning" if kind == "reasoning" else "content", text, tuple(tokens(text))))
    return parts, finish


def factor(sd: float, *parts: object) -> float:
    """A lognormal factor on times, median 1, the same for the same parts."""
    return math.exp(random.Random("/".join(str(part) for part in parts)).gauss(0.0, sd)) if sd else 1.0


@dataclass(frozen=True)
class Schedule:
    """When chunks of one request are due. Seconds."""

    options: SimOptions
    speed: float
    """Factor on all times: noise of the start times noise of the request."""

    def first(self, new_prompt_tokens: int) -> float:
        """From a free slot to the first token."""
        return self.speed * (self.options.ttft_ms + self.options.prefill_ms_per_token * new_prompt_tokens) / 1e3

    def step(self, active: int, since_start: float = 0.0) -> float:
        """Between chunks while `active` streams hold slots, this one included; `since_start` in seconds."""
        drift = 1 + self.options.drift * since_start / 60
        return self.speed * self.options.gap_ms / 1e3 * (1 + self.options.slope * (active - 1)) * drift
