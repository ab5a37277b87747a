"""The events of a journal. All that a run decided can be replayed from these and from raw records."""

from typing import Literal

import msgspec

from servesmith.measure.records import Metric
from servesmith.stats.knee import Knee
from servesmith.stats.ranges import Range
from servesmith.stats.soak import SoakVerdict
from servesmith.stats.verdict import Arm as Arm
from servesmith.stats.verdict import ItemsVerdict, Verdict

SCHEMA = 1

Ending = Literal["ok", "failed", "censored"]
"""censored: a time limit of ours ended it. A server that answers but gives no token has failed: `failed: hang`."""
FailureClass = Literal[
    "", "out-of-memory", "bad-flag", "missing-file", "port", "crash", "timeout", "hang", "wrong-server",
    "client-too-slow", "interrupted", "requests-failed", "too-few-prompts",
]  # fmt: skip


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one recipe under one load, and what came of it."""

    key: str
    """What asked for it, unique in a run, e.g. `confirm/parallel=8/block-2/B`. Resuming looks it up by this."""
    folder: str
    """Relative to the run's folder."""
    recipe_hash: str
    ending: Ending
    seed: int
    began: str
    """Wall clock, ISO 8601 with offset; for people, never for arithmetic."""
    seconds: float
    ready_seconds: float = 0.0
    """From exec to the first served token."""
    failure: FailureClass = ""
    log_line: str = ""
    """The line of the engine's log that shows the failure."""
    metrics: dict[str, Metric] = {}
    files: dict[str, str] = {}
    """SHA-256 of every file of the trial's folder."""


class RunOpened(msgspec.Struct, frozen=True, kw_only=True, tag="run-opened"):
    """First event: what this run is."""

    verb: str
    name: str
    servesmith: str
    case_hash: str
    seed: int
    at: str
    schema: int = SCHEMA
    settings: dict[str, float | int | str | bool] = {}
    """Everything that steers decisions (looks, alpha, budget): replay uses these, not today's defaults."""
    files: dict[str, str] = {}
    """SHA-256 of recipe.yaml, levers.yaml and goal.yaml as resolved."""
    machine: dict[str, str] = {}
    shared: str = ""
    """Who else measured on this machine as the run began; empty if nobody did."""


class TrialStarted(msgspec.Struct, frozen=True, kw_only=True, tag="trial-started"):
    """A trial is under way; without its TrialEnded it is repeated on resume."""

    key: str
    at: str


class TrialEnded(msgspec.Struct, frozen=True, kw_only=True, tag="trial-ended"):
    """A trial came to an end, good or bad."""

    result: TrialResult


class NoiseMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="noise-measured"):
    """The baseline against itself."""

    verdict: Verdict
    sd: float
    """Standard deviation of the log ratio of a block."""
    detectable: dict[str, float]
    """Number of blocks to the smallest relative gain shown with 80 % power."""
    trials: tuple[str, ...] = ()
    """Keys in the order A1, B1, A2, B2, ...; those of a repeated A/A too. The verdict is of all of them."""
    high: float = 0.0
    """Upper end of the 90 % interval of sd."""
    doubts: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True, tag="found"):
    """Something that the baseline's facts or metrics say, and which lever it points to."""

    finding: str
    levers: tuple[str, ...] = ()


class Proposed(msgspec.Struct, frozen=True, kw_only=True, tag="proposed"):
    """Levers to try, best bound first; what was not proposed, and why."""

    levers: tuple[str, ...]
    refused: dict[str, str] = {}


class Screened(msgspec.Struct, frozen=True, kw_only=True, tag="screened"):
    """Scores that rank. They are never reported as results."""

    scores: dict[str, float]
    """Lever to shrunken log ratio against the incumbent in the same round."""
    kept: tuple[str, ...]
    dropped: dict[str, str]


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag="decided"):
    """A verdict from blocks."""

    stage: Literal["confirm", "ablate", "prove", "compare"]
    subject: str
    verdict: Verdict
    trials: tuple[str, ...]
    """Keys, A and B of each block in order: A1, B1, A2, B2, ..."""
    secondary: dict[str, Verdict] = {}


class GreedyAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far greedy answers at one stream agree. `floor` is what A against A restarted gave."""

    prompts: int
    identical: int
    floor: int


class Gated(msgspec.Struct, frozen=True, kw_only=True, tag="gated"):
    """Whether the answers are as good."""

    subject: str
    recipe_hash: str
    passed: bool
    tasks: tuple[ItemsVerdict, ...]
    greedy: GreedyAgreement | None
    because: str
    strength: Literal["lossless", "numerics", "lossy"] = "numerics"
    """For which class of levers it was asked strongly enough."""
    trials: tuple[str, ...] = ()
    """Keys of the quality trials: the baseline, the baseline restarted, the candidate."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag="kept"):
    """A lever joins the incumbent."""

    lever: str
    because: str
    undecided: bool = False
    definition: dict[str, object] = {}
    """The whole lever, where it stands in no file: it was found by refining."""


class Discarded(msgspec.Struct, frozen=True, kw_only=True, tag="discarded"):
    """A lever is out, and why."""

    lever: str
    because: str
    stage: Literal["propose", "screen", "confirm", "gate", "ablate", "budget"]


class KneeFound(msgspec.Struct, frozen=True, kw_only=True, tag="knee-found"):
    """Up to which level the limits are kept. Its trials are those of the run, their level stands in their keys."""

    dial: str
    """What a level turns: `streams`."""
    limits: dict[str, float]
    knee: Knee


class Ranged(msgspec.Struct, frozen=True, kw_only=True, tag="ranged"):
    """Medians and ranges over single starts, by arm and metric. An arm is the second part of its trials' keys."""

    arms: dict[str, dict[str, Range]]


class Soaked(msgspec.Struct, frozen=True, kw_only=True, tag="soaked"):
    """Did the server hold over a long load?"""

    trial: str
    verdict: SoakVerdict


class Noted(msgspec.Struct, frozen=True, kw_only=True, tag="noted"):
    """Something a reader must know: what was shortened, what the budget cut."""

    note: str


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed"):
    """The run goes on after it was cut."""

    at: str
    shared: str = ""
    """As in RunOpened."""


class RunClosed(msgspec.Struct, frozen=True, kw_only=True, tag="run-closed"):
    """Last event: how it ended."""

    ending: Literal["done", "budget", "failed", "interrupted"]
    because: str
    levers: tuple[str, ...] = ()
    """Levers of the final recipe."""
    recipe_hash: str = ""


Event = (
    RunOpened | TrialStarted | TrialEnded | NoiseMeasured | Found | Proposed | Screened | Decided | Gated
    | Kept | Discarded | KneeFound | Ranged | Soaked | Noted | Resumed | RunClosed
)  # fmt: skip
