"""The noun of telling: everything that a page, a table or `summary.json` says about one run.

A `Summary` is derived from the journal alone (`report.summary.summarise`), so it may be deleted and made again.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from servesmith.measure.records import Metric
from servesmith.stats.ranges import Range
from servesmith.stats.soak import SoakVerdict
from servesmith.stats.verdict import Estimate, Says, Verdict
from servesmith.store.events import Arm, Ending, Found, Gated, KneeFound, NoiseMeasured

LeverStatus = Literal["kept", "undecided", "discarded", "refused", "open"]
"""undecided: kept, though its own worth was not shown. refused: never tried. open: the run ended before a decision."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The one result of the run."""

    says: Says | Literal["none"]
    """none: this run compared nothing, or has not come that far."""
    sentence: str
    """For a reader who knows nothing of serving."""
    metric: str = ""
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    baseline: float | None = None
    """Median over the baseline's trials of the deciding blocks."""
    final: float | None = None
    """Median over the other side's trials of the same blocks."""
    uplift: Estimate | None = None
    """Ratio signed so that above 1 is better, whichever way the metric points."""
    blocks: int = 0
    detectable: float = 0.0
    """The smallest gain that the deciding blocks would have shown with 80 % power; 0: nothing was decided by blocks."""


class Point(msgspec.Struct, frozen=True):
    """One block: what A and B gave, and ln(B / A), signed so that positive is better."""

    block: int
    a: float
    b: float
    log_ratio: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One decision from blocks, with every point it was made from."""

    stage: Literal["confirm", "ablate", "prove", "compare"]
    subject: str
    unit: str
    better: Literal["higher", "lower"]
    verdict: Verdict
    points: tuple[Point, ...]
    trials: tuple[str, ...]
    secondary: dict[str, Verdict] = {}


def deciding(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The comparison that the run's result rests on: its last proof, else its last `compare`."""
    found = (c for stage in ("prove", "compare") for c in reversed(comparisons) if c.stage == stage)
    return next(found, None)


class LeverRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one lever, and why."""

    name: str
    status: LeverStatus
    stage: str
    because: str
    screened: float | None = None
    """Score that ranked it, a shrunken log ratio. Never a result."""
    effect: Estimate | None = None
    """From its confirming blocks."""
    blocks: int = 0


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """What one kept lever is worth inside the final recipe."""

    lever: str
    says: Says
    effect: Estimate | None
    blocks: int
    source: Literal["ablate", "prove"]
    """prove: the only kept lever, so the proof's blocks are its ablation."""
    holds: bool = False
    """It is better; with two levers or more also after Holm's correction over all of them."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One metric, baseline against final, over the deciding blocks."""

    metric: str
    unit: str
    better: Literal["higher", "lower"]
    baseline: float
    final: float
    effect: Estimate | None
    """Plain ratio final / baseline (1.2: a fifth more) with a fixed-sample 95 % interval; None: no ratio exists."""
    reads: Literal["better", "worse", "unclear"]
    """Whether the interval leaves 1.0, and on which side; unclear if it does not."""
    blocks: int


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of the run."""

    key: str
    folder: str
    arm: Arm | Literal[""]
    ending: Ending
    reason: str
    log_line: str
    recipe_hash: str
    began: str
    seconds: float
    ready_seconds: float
    value: Metric | None
    """The run's primary metric, with its doubts."""


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the latency-throughput curve: medians over its good starts, search and edge together."""

    level: int
    starts: int
    failed: int
    output_tokens_per_s: float
    interactivity: float
    """Tokens/s that one stream sees: 1000 / tpot_mean_ms; 0: not known."""
    ttft_p95_ms: float
    """0: not known."""
    tpot_mean_ms: float
    limits: dict[str, float] = {}
    """Median of each limited metric."""
    kept: int = 0
    """Starts that kept every limit."""
    says: str = ""
    """`keeps` or `breaks` where that was shown at the edge."""
    front: tuple[str, ...] = ()
    """Against what it is on the Pareto front of throughput: `interactivity`, `ttft`."""


class TimeSpent(msgspec.Struct, frozen=True, kw_only=True):
    """Where the machine's time went."""

    trials: int
    seconds: float
    stages: dict[str, float]
    """First part of the trial's key to seconds."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All that is told about a run."""

    schema: int = 1
    verb: str
    name: str
    servesmith: str
    began: str
    seed: int
    case_hash: str
    recipe_hash: str
    """Of the final recipe; empty while the run is open."""
    levers_kept: tuple[str, ...]
    ending: Literal["done", "budget", "failed", "interrupted", "unfinished"]
    because: str
    headline: Headline
    noise: NoiseMeasured | None
    findings: tuple[Found, ...]
    levers: tuple[LeverRow, ...]
    comparisons: tuple[Comparison, ...]
    ablation: tuple[Worth, ...]
    changes: tuple[Change, ...]
    metrics: dict[str, Metric]
    """Where nothing was compared (`bench`): medians over the good trials, with the doubts of any of them."""
    gates: tuple[Gated, ...]
    knee: KneeFound | None
    """The answer of a `knee`; None where there is none."""
    curve: tuple[CurvePoint, ...]
    """Every level that a `knee` measured, rising."""
    ranges: dict[str, dict[str, Range]]
    """Arm to metric to median and range over its starts, of a `start` or a `prefill`."""
    soak: SoakVerdict | None
    """Of a `soak`."""
    trials: tuple[TrialRow, ...]
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    """Doubts on the primary metric in the deciding trials, each once."""
    time: TimeSpent
    settings: dict[str, float | int | str | bool]
    machine: dict[str, str]
    files: dict[str, str]
    metrics_trials: int = 0
    """Of how many good trials `metrics` are the medians."""
    journal: str = ""
    """Last checksum of the journal, which pins every line of it; empty where only events were read."""
