"""The frozen nouns of the input: recipe, workload, load, goal, quality, and the case that holds them.

Engine flags and environment stay untranslated mappings: a new flag of an engine costs us nothing.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Short name")
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


class Workload(Noun):
    """What is asked: prompts with exact token counts and exact output lengths."""

    api: Literal["chat", "completions"] = "chat"
    prompt_tokens: Annotated[int, Field(ge=1)] = Field(
        default=64, description="Prompt tokens by the server's own count, chat template included"
    )
    output_tokens: Annotated[int, Field(ge=2)] = Field(default=64, description="Output tokens, forced")
    text: Literal["words", "ids"] = Field(default="words", description="Seeded words, or random token ids")
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 0
    temperature: Annotated[float, Field(ge=0)] = 0.0
    extra: dict[str, Any] = Field(default_factory=dict, description="Further request fields, as they are")


class Load(Noun):
    """How it is asked. Closed loop: each stream sends its next request when the last one has ended."""

    streams: Annotated[int, Field(ge=1)] = 8
    starts: Literal["desynchronised", "together"] = "desynchronised"
    warmup_s: Annotated[float, Field(ge=0)] = Field(default=3.0, description="Seconds before the window opens")
    window_s: Annotated[float, Field(gt=0)] = Field(default=8.0, description="Seconds that are measured")
    workers: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Measuring processes; 0: from the expected token rate"
    )
    first_token_s: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="A request without a token for this long is an error; all of them: a hang"
    )


class Goal(Noun):
    """One primary metric declared beforehand, limits on others, and the smallest gain that matters."""

    metric: str = Field(default="output_tokens_per_s", description="Key of the metric table")
    limits: dict[str, float] = Field(default_factory=dict, description="metric key: worst allowed value")
    minimum_gain: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.01, description="0.01 is 1 %")


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
