"""A summary as tables: plain rows of text, for the terminal, the page, Markdown and CSV alike. Prints nothing."""

import csv
import io
from collections.abc import Mapping
from typing import Literal

import msgspec

from servesmith.measure.records import Metric
from servesmith.report.nouns import Comparison, Summary, Worth
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


def metric_table(metrics: Mapping[str, Metric], *, main: bool = True) -> Table:
    """Numbers of one trial with their intervals, if any has one, and their doubts."""
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
    return Table("Metrics", columns("metric", "value>", *(["95 %>"] if spread else []), "doubts"), tuple(rows))


def _reach(metric: Metric) -> str:
    """The interval over the requests of this start, or nothing."""
    if metric.interval is None:
        return ""
    low, high = (amount(value, metric.unit).removesuffix(metric.unit).strip() for value in metric.interval)
    return f"{low} to {high}".replace(" % to", " to")


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
