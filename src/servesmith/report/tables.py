"""A summary as tables: plain rows of text, for the terminal, the page, Markdown and CSV alike. Prints nothing."""

import csv
import io
from collections.abc import Mapping
from typing import Literal

import msgspec

from servesmith.measure.metrics import METRICS
from servesmith.measure.prefill import PREFILL_METRICS
from servesmith.measure.records import Metric
from servesmith.measure.startup import STARTUP_METRICS
from servesmith.report.nouns import Comparison, CurvePoint, Summary, Worth
from servesmith.report.words import (
    amount,
    count,
    interval,
    is_main,
    log_percent,
    metric_name,
    metric_rank,
    percent,
    span,
)  # fmt: skip
from servesmith.stats.knee import Claim
from servesmith.stats.soak import SoakVerdict
from servesmith.store.events import Gated, NoiseMeasured

Tone = Literal["", "good", "bad", "muted"]


class Column(msgspec.Struct, frozen=True):
    """A head, and how its cells stand."""

    head: str
    align: Literal["left", "right"] = "left"


class Row(msgspec.Struct, frozen=True):
    """One cell a column, and how the row should strike the eye."""

    cells: tuple[str, ...]
    tone: Tone = ""


class Table(msgspec.Struct, frozen=True):
    """A title, columns and rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def lever_table(summary: Summary) -> Table:
    """What became of every lever, and why."""
    tones: dict[str, Tone] = {"kept": "good", "discarded": "", "refused": "muted", "undecided": "", "open": "muted"}
    return Table(
        "Levers",
        columns("lever", "status", "at", "effect>", "blocks>", "why"),
        tuple(
            Row(
                (row.name, row.status, row.stage, interval(row.effect), str(row.blocks or "-"), row.because),
                tones[row.status],
            )
            for row in summary.levers
        ),
    )


def change_table(summary: Summary, *, main: bool = True) -> Table:
    """Every metric, baseline against final. `main`: those of the first table, else the rest."""
    tones: dict[str, Tone] = {"better": "good", "worse": "bad", "unclear": "muted"}
    rows = [
        Row(
            (
                metric_name(change.metric),
                amount(change.baseline, change.unit),
                amount(change.final, change.unit),
                interval(change.effect),
                change.reads,
            ),
            tones[change.reads],
        )
        for change in summary.changes
        if is_main(change.metric) == main
    ]
    a, b = arm_names(summary)
    return Table("What changed", columns("metric", f"{a}>", f"{b}>", "change (95 % interval)>", "reads"), tuple(rows))


def main_tables(summary: Summary) -> tuple[Table, ...]:
    """What a terminal shows of a run, in order; tables without rows among them."""
    return (
        worth_table(summary),
        change_table(summary),
        curve_table(summary),
        claim_table(summary),
        range_table(summary),
        soak_table(summary),
        metric_table(summary.metrics, trials=summary.metrics_trials),
    )


def costs(summary: Summary) -> list[str]:
    """What a gain is paid with: the main metrics that got worse, the declared one left out. Empty without one."""
    if summary.headline.uplift is None or summary.headline.says == "worse":
        return []
    return [
        f"{metric_name(change.metric)} {percent(change.effect.ratio)}"
        for change in summary.changes
        if change.reads == "worse"
        and change.effect
        and is_main(change.metric)
        and change.metric != summary.headline.metric
    ]


def block_table(comparison: Comparison) -> Table:
    """Both values of every block and the effect, positive is better."""
    rows = [Row((str(p.block), amount(p.a), amount(p.b), log_percent(p.log_ratio))) for p in comparison.points]
    title = f"{comparison.stage}: {comparison.subject}, {comparison.unit}"
    return Table(title, columns("block>", "A>", "B>", "effect>"), tuple(rows))


def worth_table(summary: Summary) -> Table:
    """What each kept lever is worth inside the final recipe; of several, also whether that holds for all at once."""
    several = len(summary.ablation) > 1
    rows = [
        Row(
            (
                *(worth.lever, interval(worth.effect), worth.says, str(worth.blocks)),
                *((holds(worth, len(summary.ablation)),) if several else ()),
            ),
            "good" if worth.holds else "",
        )
        for worth in summary.ablation
    ]
    heads = ("lever", "worth>", "says", "blocks>", *(("all at once",) if several else ()))
    return Table("Worth of each kept lever", columns(*heads), tuple(rows))


def holds(worth: Worth, levers: int) -> str:
    """What Holm's correction leaves of one lever's claim."""
    return f"{'holds' if worth.holds else 'does not hold'} after Holm's correction over {levers} levers"


def gate_table(gated: Gated) -> Table:
    """Every task of a quality gate."""
    tones: dict[str, Tone] = {"pass": "good", "fail": "bad", "powerless": "muted", "undecided": ""}
    rows = [
        Row(
            (
                task.task,
                str(task.items),
                _share(task.a_right, task.items),
                _share(task.b_right, task.items),
                f"{100 * task.difference:+.1f}",
                f"{100 * task.low:+.1f}",
                f"{-100 * task.margin:.1f}",
                f"{100 * task.power:.0f} %",
                task.says,
            ),
            tones[task.says],
        )
        for task in gated.tasks
    ]
    heads = (
        "task",
        "items>",
        "A right>",
        "B right>",
        "difference, points>",
        "lower bound>",
        "margin>",
        "power>",
        "says",
    )
    return Table(f"Quality gate of {gated.subject}", columns(*heads), tuple(rows))


def trial_table(summary: Summary) -> Table:
    """Every trial, in the order in which they ended."""
    rows = [
        Row(
            (
                trial.key,
                trial.recipe_hash[:8],
                trial.ending,
                amount(trial.ready_seconds, "s") if trial.ready_seconds else "-",
                amount(trial.value.value, trial.value.unit) if trial.value else "-",
                amount(round(trial.seconds, 1), "s"),
                ": ".join(part for part in (trial.reason, trial.log_line.strip()) if part),
            ),
            "" if trial.ending == "ok" else "bad",
        )
        for trial in summary.trials
    ]
    value = metric_name(summary.headline.metric) if summary.headline.metric else "value"
    heads = columns("trial", "recipe", "ended", "start>", f"{value}>", "took>", "reason and log line")
    return Table("Trials", heads, tuple(rows))


def metric_table(metrics: Mapping[str, Metric], *, main: bool = True, trials: int = 1) -> Table:
    """Numbers of one trial with their intervals, if any has one, or medians over several; with their doubts."""
    shown = [(key, metrics[key]) for key in sorted(metrics, key=metric_rank) if is_main(key) == main]
    spread = any(metric.interval for _, metric in shown)
    rows = [
        Row(
            (
                metric_name(key),
                amount(metric.value, metric.unit),
                *([_reach(metric)] if spread else []),
                "; ".join(metric.doubts),
            )
        )
        for key, metric in shown
    ]
    title, head = (f"Metrics, medians of {trials} trials", "median>") if trials > 1 else ("Metrics", "value>")
    return Table(title, columns("metric", head, *(["95 %>"] if spread else []), "doubts"), tuple(rows))


def _reach(metric: Metric) -> str:
    """The interval over the requests of this start, or nothing."""
    if metric.interval is None:
        return ""
    low, high = (amount(value, metric.unit).removesuffix(metric.unit).strip() for value in metric.interval)
    return f"{low} to {high}".replace(" % to", " to")


def curve_table(summary: Summary) -> Table:
    """Every level that was measured, with what each limit was and whether it was kept."""
    limits = [key for key in (summary.knee.limits if summary.knee else {}) if key != "ttft_p95_ms"]
    tones: dict[str, Tone] = {"keeps": "good", "breaks": "bad"}
    rows = [
        Row(
            (
                str(point.level),
                str(point.starts),
                amount(point.output_tokens_per_s or None),
                amount(point.interactivity or None),
                amount(point.ttft_p95_ms or None, "ms"),
                amount(point.tpot_mean_ms or None, "ms"),
                *(amount(point.limits.get(key)) for key in limits),
                _kept(point) if summary.knee else "-",
                ", ".join(point.front) or "-",
            ),
            tones.get(point.says, ""),
        )
        for point in summary.curve
    ]
    heads = ("level>", "starts>", "tokens/s>", "a stream>", "TTFT p95>", "TPOT>", *(f"{key}>" for key in limits))
    title = "Throughput and latency by level"
    return Table(title, columns(*heads, "limits", "on the front against"), tuple(rows))


def _kept(point: CurvePoint) -> str:
    """How many starts kept the limits, and what was shown of the level."""
    told = f"{point.kept} of {point.starts} kept"
    return f"{told}; shown: {point.says}" if point.says else told


def range_table(summary: Summary) -> Table:
    """Median and range of every metric of every arm; how surely the range holds the median of all starts."""
    rows = [
        Row(
            (
                arm,
                metric_name(key),
                amount(found.median, unit_of(key)),
                amount(found.low, unit_of(key)),
                amount(found.high, unit_of(key)),
                str(found.starts),
                percent_of(found.confidence),
            )
        )
        for arm, metrics in summary.ranges.items()
        for key, found in metrics.items()
    ]
    heads = ("what", "metric", "median>", "smallest>", "largest>", "starts>", "confidence>")
    return Table("Medians and ranges", columns(*heads), tuple(rows))


def soak_table(summary: Summary) -> Table:
    """How throughput and memory changed over a soak, and when requests failed."""
    if (verdict := summary.soak) is None:
        return Table("Over the soak", columns("what"), ())
    trends = (("throughput", verdict.throughput, "tokens/s"), ("memory", verdict.memory, "MiB"))
    rows = [
        Row(
            (
                name,
                amount(found.mean, unit),
                percent(1 + found.change),
                f"{percent(1 + found.low)} to {percent(1 + found.high)}",
                f"{found.bins} bins, neighbours correlate by {found.correlation:.2f}",
            )
        )
        for name, found, unit in trends
        if found is not None
    ]
    tenths = f"{amount(verdict.first_tenth)} to {amount(verdict.last_tenth)} tokens/s"
    rows.append(Row(("first and last tenth", tenths, _tenth_change(verdict), "-", "for the eye; decides nothing")))
    errors = verdict.errors
    failed = f"{errors.failed} of {errors.requests}"
    rows.append(Row(("failed requests", failed, "-", "-", f"by tenths: {' '.join(map(str, errors.tenths))}")))
    heads = ("what", "mean>", "change>", "one-sided bounds>", "from")
    return Table("Over the soak", columns(*heads), tuple(rows))


def _tenth_change(verdict: SoakVerdict) -> str:
    return percent(verdict.last_tenth / verdict.first_tenth) if verdict.first_tenth else "-"


def unit_of(key: str) -> str:
    """The unit of a metric of any kind."""
    kinds = METRICS | STARTUP_METRICS | PREFILL_METRICS
    return kinds[key].unit if key in kinds else ""


def percent_of(share: float) -> str:
    """A share for people; nothing can be said from a single start."""
    return f"{100 * share:.0f} %" if share > 0 else "-"


def claim_table(summary: Summary) -> Table:
    """Every test at the edge, in order."""
    claims = summary.knee.knee.claims if summary.knee else ()
    rows = [
        Row(
            (
                str(claim.level),
                claim.side,
                "shown" if claim.shown else "not shown",
                f"{claim.kept} of {claim.starts}",
                "; ".join(_bound(metric, claim) for metric in claim.means) or f"{claim.failed} failed",
                f"{claim.alpha:.3f}",
                f"{100 * claim.share_low:.0f} %",
            ),
            "good" if claim.shown else "",
        )
        for claim in claims
    ]
    heads = ("level>", "claim", "result", "kept", "mean against its limit (bound)", "alpha>", "share at least>")
    return Table("Claims at the edge", columns(*heads), tuple(rows))


def _bound(metric: str, claim: Claim) -> str:
    return f"{metric} {log_percent(claim.means[metric])} ({log_percent(claim.bounds[metric])})"


def noise_table(noise: NoiseMeasured) -> Table:
    """The smallest gain that so many blocks show at this noise, one column a number of blocks."""
    counts = sorted(noise.detectable, key=int)
    gains = Row(("smallest gain", *(percent(1 + noise.detectable[blocks]) for blocks in counts)))
    title = "Smallest gain that is shown with 80 % power"
    return Table(title, columns("blocks", *(f"{blocks}>" for blocks in counts)), (gains,))


def time_table(summary: Summary) -> Table:
    """Where the time went."""
    rows = [Row((stage, span(seconds))) for stage, seconds in summary.time.stages.items()]
    total = Row((f"all {count(summary.time.trials, 'trial')}", span(summary.time.seconds)), "good")
    return Table("Time", columns("stage", "trials took>"), (*rows, total))


def arm_names(summary: Summary) -> tuple[str, str]:
    """What A and B of the deciding blocks are called."""
    return ("A", "B") if summary.verb == "compare" else ("baseline", "final")


def markdown(table: Table) -> str:
    """The table in GitHub's Markdown."""
    heads = "| " + " | ".join(_markdown_cell(column.head) for column in table.columns) + " |"
    rule = "| " + " | ".join("---:" if column.align == "right" else "---" for column in table.columns) + " |"
    body = ["| " + " | ".join(_markdown_cell(cell) for cell in row.cells) + " |" for row in table.rows]
    return "\n".join([heads, rule, *body]) + "\n"


def comma_separated(table: Table) -> str:
    """The table as CSV (RFC 4180) with a head line."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([column.head for column in table.columns])
    writer.writerows([row.cells for row in table.rows])
    return out.getvalue()


def _share(right: int, items: int) -> str:
    return f"{100 * right / items:.1f} %" if items else "-"


def columns(*heads: str) -> tuple[Column, ...]:
    """A head that ends in `>` stands right."""
    return tuple(Column(head.rstrip(">"), "right" if head.endswith(">") else "left") for head in heads)


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
