"""The frozen nouns of the input: recipe, workload, load, goal, quality, and the case that holds them.

Engine flags and environment stay untranslated mappings: a new flag of an engine costs us nothing.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
MOST_NAME = 100
"""Characters: with a time before it the name must fit into the name of a folder."""
MOST_TOKENS = 10_000_000
MOST_STREAMS = 50_000
"""Each is a connection from one address, and there are no more ports than that. More is a slip of the keyboard."""
MOST_SECONDS = 604_800
"""A week."""
TraceFormat = Literal["auto", "mooncake", "timed", "azure", "burstgpt"]
RequestLimit = Literal[
    "ttft_ms", "ttft_due_ms", "ttft_content_ms", "tpot_ms", "normalised_latency_ms", "e2e_s", "e2e_due_s"
]
"""What a single request can be held to; defined as the metrics of these names."""
EngineKind = Literal["llamacpp", "vllm", "sglang", "endpoint", "sim"]
Risk = Literal["lossless", "numerics", "lossy"]
Scalar = bool | int | float | str
FlagValue = Scalar | list[Scalar] | list[list[Scalar]] | dict[str, Any]
"""true: a bare flag. scalar: one value. list: one flag with several values. list of lists: the flag
repeated. mapping: a JSON value."""


class Noun(BaseModel):
    """Base of all input types: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def digest(self) -> str:
        """Stable content hash: SHA-256 of the canonical JSON, first 16 hex digits."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Overlay(Noun):
    """A file put over a file of the engine: a kernel table, a patch."""

    source: str = Field(description="Path of our file, relative to the recipe")
    target: str = Field(description="Where the engine looks for it")


class Recipe(Noun):
    """What is served and how. Its hash is the identity of everything measured under it."""

    name: str = Field(
        min_length=1, max_length=MOST_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Short name"
    )
    engine: EngineKind = Field(description="Which adapter drives it")
    model: str = Field(
        default="", description="Path, hub id, or package:NAME/FILE for a model that a Python package carries"
    )
    served_name: str = Field(default="", description="Model name in requests; empty: as the server reports it")
    executable: tuple[str, ...] = Field(default=(), description="Command that starts the engine; empty: found")
    image: str = Field(default="", description="Container image, by digest")
    url: str = Field(default="", description="Address of a server that someone else runs (engine: endpoint)")
    key_env: str = Field(default="", description="Name of the variable that holds the server's bearer key")
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables, untranslated")
    flags: dict[str, FlagValue] = Field(default_factory=dict, description="Engine flags, untranslated")
    container: dict[str, FlagValue] = Field(default_factory=dict, description="Container run options, untranslated")
    overlays: tuple[Overlay, ...] = Field(default=(), description="Files put over files of the engine")
    gpus: tuple[int, ...] = Field(default=(), description="GPU indexes; empty: none or as the engine picks")

    def digest(self) -> str:
        """Hash of what is served. The name is a label and does not count; neither does a field left at its default,
        so that a field which a later version adds does not change the identity of what was measured before."""
        data = self.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def refusal(field: str, message: str, remedy: str) -> PydanticCustomError:
    """What a validator raises: the problem of one field of a noun (empty: of the noun), and what to do about it."""
    return PydanticCustomError("refused", "{message}", {"field": field, "message": message, "remedy": remedy})


def _refuse_unused(noun: Noun, kind: str, used: Iterable[str], optional: Iterable[str]) -> None:
    """Raise for a field that was given a value which `kind` would silently ignore."""
    for name in sorted(set(optional) - set(used)):
        if getattr(noun, name) != type(noun).model_fields[name].get_default(call_default_factory=True):
            does = ", ".join(f"`{field}`" for field in sorted(used)) or "nothing else"
            raise refusal(name, f"Says nothing for {kind}, which uses {does}.", "Delete it.")


class Lengths(Noun):
    """How long something is, in tokens: drawn anew for every request from the trial's seed."""

    kind: Literal["fixed", "uniform", "lognormal", "trace"] = Field(
        description="fixed: always `tokens`; uniform: `low` to `high`, both included; lognormal: of `mean` and "
        "`stdev`, cut off at `low` and `high`; trace: the lengths of rows of a trace, drawn with replacement"
    )
    tokens: Whole = 0
    low: Whole = Field(default=0, description="Shortest; 0: 1 token")
    high: Whole = Field(default=0, description="Longest; 0, for lognormal: no bound")
    mean: Amount = Field(default=0.0, description="Of the lognormal distribution itself, not of its logarithm")
    stdev: Amount = Field(default=0.0, description="Likewise")
    trace: str = Field(default="", description="Path of the trace; prompt and output of one request come from one row")
    trace_format: TraceFormat = "auto"

    @model_validator(mode="after")
    def _complete(self) -> "Lengths":
        used = _LENGTH_FIELDS[self.kind]
        _refuse_unused(self, f"kind: {self.kind}", used, [name for name in type(self).model_fields if name != "kind"])
        needed = {"fixed": "tokens", "uniform": "high", "lognormal": "mean", "trace": "trace"}[self.kind]
        if not getattr(self, needed):
            raise refusal(needed, f"kind: {self.kind} needs it.", f"Add `{needed}:`.")
        if self.high and self.high < self.low:
            raise refusal("high", f"The longest ({self.high}) is below the shortest ({self.low}).", "Exchange the two.")
        if self.kind == "lognormal" and not self.low <= self.mean <= (self.high or self.mean):
            raise refusal("mean", "Lies outside `low` and `high`, so most draws would be thrown away.", "Widen them.")
        return self


_LENGTH_FIELDS = {
    "fixed": ("tokens",),
    "uniform": ("low", "high"),
    "lognormal": ("mean", "stdev", "low", "high"),
    "trace": ("trace", "trace_format"),
}


class Prefixes(Noun):
    """A pool of prefixes that some of the requests begin with, as system prompts do."""

    count: Positive = Field(default=1, description="How many different prefixes there are")
    tokens: Positive = Field(description="Tokens of each")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Share of requests that begin with one, spread evenly; the others begin uniquely"
    )


class Sessions(Noun):
    """Multi-turn talks: each turn repeats the talk so far, with canned answers, and adds a question."""

    turns: Annotated[int, Field(ge=2)] = Field(default=3, description="Requests a session")
    question_tokens: Positive = Field(
        default=64, description="Tokens that a further question adds, with what the chat template puts around a turn"
    )
    think_s: Amount = Field(default=0.0, description="Mean pause of the user before a further turn")
    think: Literal["fixed", "exponential"] = "exponential"


class Dataset(Noun):
    """Prompts out of a file instead of made-up ones. Their lengths are what they are, counted by the server."""

    path: str = Field(min_length=1, description="A file, relative to where servesmith is run")
    format: Literal["auto", "jsonl", "sharegpt"] = Field(
        default="auto",
        description="jsonl: one object a line with `prompt` or `messages`, and `output_tokens` if it has its own; "
        "sharegpt: a JSON list of conversations; the length of the recorded answer is asked for",
    )
    shuffle: bool = Field(default=True, description="In an order that follows from the seed; else that of the file")


class InferenceX(Noun):
    """The lengths of InferenceX's random workload, drawn as its client draws them, always with its seed 0."""

    input_tokens: Positive = Field(default=1024, description="ISL; lengths lie between `ratio` times it and itself")
    output_tokens: Annotated[int, Field(ge=2)] = Field(default=1024, description="OSL, likewise")
    ratio: Annotated[float, Field(gt=0, le=1)] = Field(default=0.8, description="--random-range-ratio")
    prompts: Positive = Field(default=640, description="--num-prompts, 10 times the concurrency; it changes every draw")


class Workload(Noun):
    """What is asked: prompts with exact token counts and exact output lengths."""

    api: Literal["chat", "completions"] = "chat"
    prompt_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = Field(
        default=64, description="Prompt tokens by the server's own count, chat template included"
    )
    output_tokens: Annotated[int, Field(ge=2, le=MOST_TOKENS)] = Field(default=64, description="Output tokens, forced")
    prompt_lengths: Lengths | None = Field(default=None, description="Instead of prompt_tokens: a distribution")
    output_lengths: Lengths | None = Field(default=None, description="Instead of output_tokens: a distribution")
    text: Literal["words", "ids"] = Field(default="words", description="Seeded words, or random token ids")
    shared_prefix_tokens: Whole = 0
    prefixes: Prefixes | None = Field(default=None, description="A pool of prefixes that requests begin with")
    sessions: Sessions | None = Field(default=None, description="Multi-turn talks instead of single requests")
    dataset: Dataset | None = Field(default=None, description="Prompts out of a file")
    inferencex: InferenceX | None = Field(default=None, description="Lengths drawn as InferenceX draws them")
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Given to the chat template: {enable_thinking: false} turns thinking off"
    )
    temperature: Amount = 0.0
    extra: dict[str, Any] = Field(default_factory=dict, description="Further request fields, as they are")

    @model_validator(mode="after")
    def _consistent(self) -> "Workload":
        if self.chat_template_kwargs and self.api != "chat":
            raise refusal("chat_template_kwargs", "Only chats have a template.", "Set api: chat, or delete it.")
        if self.prefixes and self.shared_prefix_tokens:
            raise refusal("prefixes", "Stands beside shared_prefix_tokens.", "Keep one of the two.")
        if self.inferencex and (self.prompt_lengths or self.output_lengths):
            raise refusal("inferencex", "Has lengths of its own.", "Delete prompt_lengths and output_lengths.")
        if self.inferencex and self.sessions:
            raise refusal("sessions", "InferenceX sends single requests.", "Delete it, or inferencex.")
        if self.dataset:
            made_up = (
                "text",
                "prompt_tokens",
                "prompt_lengths",
                "prefixes",
                "shared_prefix_tokens",
                "sessions",
                "inferencex",
            )
            used = [name for name in type(self).model_fields if name not in made_up]
            _refuse_unused(self, "a dataset", used=used, optional=made_up)
        return self


class Step(Noun):
    """One step of a staircase of rates."""

    rate: Amount = Field(description="Requests a second; 0: a pause")
    seconds: Annotated[float, Field(gt=0)]


class Arrivals(Noun):
    """Open loop: requests are due at times that were drawn before, whatever the server does."""

    process: Literal["poisson", "gamma", "constant", "ramp", "steps", "trace"] = Field(
        default="poisson",
        description="ramp: linear from `rate` to `to_rate` over the whole load; trace: the times of a recorded trace",
    )
    rate: Amount = Field(default=0.0, description="Requests a second")
    burstiness: Annotated[float, Field(gt=0)] = Field(
        default=1.0,
        description="Shape of gamma distributed gaps: 1 is Poisson, below 1 burstier, above more even",
    )
    to_rate: Amount = Field(default=0.0, description="ramp: the rate at its end")
    steps: tuple[Step, ...] = Field(default=(), description="steps: rates one after the other")
    spacing: Literal["random", "even"] = Field(default="random", description="ramp and steps: gaps drawn, or all alike")
    trace: str = Field(default="", description="Path of a trace, relative to where servesmith is run")
    trace_format: TraceFormat = "auto"
    start_s: Amount = Field(default=0.0, description="trace: what is taken begins so long after its first row")
    end_s: Amount = Field(default=0.0, description="trace: and ends before this; 0: at its last row")
    speedup: Annotated[float, Field(gt=0)] = Field(default=1.0, description="trace: 2 is twice as fast")
    max_in_flight: Whole = Field(default=0, description="Requests under way at most; 0: no bound")
    overload: Literal["wait", "drop"] = Field(default="wait", description="What befalls a request due beyond it")
    drain_s: Amount = Field(default=60.0, description="How long answers may take after the window")

    @model_validator(mode="after")
    def _complete(self) -> "Arrivals":
        used = _ARRIVAL_FIELDS[self.process]
        optional = {name for fields in _ARRIVAL_FIELDS.values() for name in fields}
        _refuse_unused(self, f"process: {self.process}", used, optional)
        needed = next((name for name in ("steps", "trace", "rate") if name in used), "rate")
        if not getattr(self, needed) and not (self.process == "ramp" and self.to_rate):
            raise refusal(needed, f"process: {self.process} needs it.", f"Add `{needed}:`.")
        if self.steps and not any(step.rate for step in self.steps):
            raise refusal("steps", "All rates are 0, so nothing would be sent.", "Give one of them a rate.")
        if self.end_s and self.end_s <= self.start_s:
            raise refusal("end_s", "The part of the trace ends before it begins.", f"Raise it above {self.start_s:g}.")
        if self.overload == "drop" and not self.max_in_flight:
            raise refusal("overload", "Nothing is dropped without a bound.", "Set max_in_flight, or overload: wait.")
        return self


_ARRIVAL_FIELDS = {
    "poisson": ("rate",),
    "gamma": ("rate", "burstiness"),
    "constant": ("rate",),
    "ramp": ("rate", "to_rate", "burstiness", "spacing"),
    "steps": ("steps", "burstiness", "spacing"),
    "trace": ("trace", "trace_format", "start_s", "end_s", "speedup"),
}


class Load(Noun):
    """How it is asked. Closed loop: each stream sends its next request when the last one has ended; open loop: at the
    times that `arrivals` gives."""

    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS)] = 8
    starts: Literal["desynchronised", "together"] = "desynchronised"
    warmup_s: Annotated[float, Field(ge=0, le=MOST_SECONDS)] = Field(
        default=3.0, description="Seconds before the window opens"
    )
    window_s: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = Field(
        default=8.0, description="Seconds that are measured"
    )
    workers: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Measuring processes; 0: from the expected token rate"
    )
    arrivals: Arrivals | None = Field(
        default=None, description="Open loop: when requests are due; without it a closed loop of `streams`"
    )
    first_token_s: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="A request without a token for this long is an error; all of them: a hang"
    )

    @model_validator(mode="after")
    def _steps_last(self) -> "Load":
        steps = self.arrivals.steps if self.arrivals else ()
        lasts, load = sum(step.seconds for step in steps), self.warmup_s + self.window_s
        if steps and lasts < load:
            message = f"The steps last {lasts:g} s, but warm-up and window {load:g} s, so nothing is due at their end."
            raise refusal("arrivals.steps", message, "Add a step, or shorten load.window_s.")
        return self


class Goal(Noun):
    """One primary metric declared beforehand, limits on others, and the smallest gain that matters."""

    metric: str = Field(default="output_tokens_per_s", description="Key of the metric table")
    limits: dict[str, float] = Field(default_factory=dict, description="metric key: worst allowed value")
    minimum_gain: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.01, description="0.01 is 1 %")
    request_limits: dict[RequestLimit, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict[RequestLimit, float],
        description="Goodput: what every single request must meet, for example {ttft_ms: 2000, tpot_ms: 50}",
    )
    gpus: Whole = Field(
        default=0, description="GPUs that serve, for numbers per GPU, where recipe.gpus names none; 0: not known"
    )
    price_per_hour: Amount = Field(
        default=0.0, description="Price of an hour of everything that serves, for the cost of tokens; 0: not known"
    )


class Quality(Noun):
    """How sure we must be that answers are as good."""

    margin: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.05, description="Largest loss of accuracy allowed")
    items: Annotated[int, Field(ge=0)] = Field(default=0, description="Items per task; 0: from the planner")
    tasks: tuple[str, ...] = Field(default=(), description="Task names; empty: the built-in set")


class Case(Noun):
    """One recipe file: what is served, asked, wanted."""

    recipe: Recipe
    workload: Workload = Workload()
    load: Load = Load()
    goal: Goal = Goal()
    quality: Quality = Quality()


class When(Noun):
    """Where a lever applies. Empty fields mean everywhere."""

    engines: tuple[EngineKind, ...] = ()
    platforms: tuple[Literal["cpu", "cuda", "rocm"], ...] = ()
    versions: str = Field(default="", description="PEP 440 specifier of the engine's version, e.g. >=0.20,<0.27")
    min_cores: int = 0
    min_streams: int = Field(default=0, description="Only with at least this many streams")
    unless_flags: tuple[str, ...] = Field(default=(), description="Not if the recipe has one of these flags")


class Span(Noun):
    """A range of whole numbers in which a flag may be refined."""

    low: int
    high: int
    log: bool = Field(default=True, description="Search powers rather than steps")


class Lever(Noun):
    """One named change to a recipe."""

    name: str = Field(min_length=1)
    why: str = Field(description="One sentence: what it changes and why that may pay")
    risk: Risk
    set: dict[str, FlagValue | None] = Field(
        description="Dotted path to value: flags.parallel: 8. null removes. A mapping is merged into JSON flags"
    )
    when: When = When()
    excludes: tuple[str, ...] = Field(default=(), description="Names of levers it cannot be combined with")
    secondary: str = Field(default="", description="A metric it may be kept for, declared beforehand")
    bound: Annotated[float, Field(ge=0)] = Field(
        default=0.05, description="Assumed largest gain (0.05: 5 %) until a profile says better"
    )
    spans: dict[str, Span] = Field(
        default_factory=dict, description="Dotted path to the range in which its number may be refined"
    )
    source: str = Field(default="", description="Where it was seen to help: a link")
