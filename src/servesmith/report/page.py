"""One self-contained HTML file: no script, no network, equal input gives equal bytes. The door to jinja2."""

from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup

from servesmith.report import tables, words
from servesmith.report.nouns import Summary, deciding
from servesmith.report.series import lanes, waterfall
from servesmith.report.sources import Sources, read_sources
from servesmith.report.summary import encode, read_summary

PAGE = "report.html"
SUMMARY = "summary.json"


class Drawn(msgspec.Struct, frozen=True):
    """The charts of a page as SVG; empty where there is nothing to draw."""

    blocks: str
    waterfall: str
    ttft: str
    tpot: str
    curve: str
    fronts: str
    course: tuple[str, ...] = ()


def write_report(folder: Path) -> Summary:
    """Write report.html and summary.json of a run anew. Raises EvidenceError if its files contradict themselves."""
    summary = read_summary(folder)
    page = render(summary, read_sources(folder, summary))
    _replace(folder / SUMMARY, encode(summary))
    _replace(folder / PAGE, page.encode())
    return summary


def render(summary: Summary, sources: Sources) -> str:
    """The page's text. Nothing in it comes from elsewhere than its arguments: no clock, no machine."""
    from servesmith.report import charts  # 0.6 s to import, and only drawing needs it

    template = _environment().get_template("report.html.j2")
    return template.render(
        s=summary,
        head=summary.headline,
        gate=summary.gates[-1] if summary.gates else None,
        deciding=deciding(summary.comparisons),
        drawn=draw(summary, sources),
        sources=sources,
        costs=tables.costs(summary),
        generator=f"servesmith {summary.servesmith}; {charts.renderer()}",
        document=Markup(_script_safe(encode(summary).decode())),
        t=tables,
        w=words,
    )


def draw(summary: Summary, sources: Sources) -> Drawn:
    """All charts of a page."""
    from servesmith.report import charts

    rows, bars, latencies = lanes(summary.comparisons), waterfall(summary), sources.latencies
    sd = summary.noise.sd if summary.noise else None
    return Drawn(
        blocks=charts.blocks_chart(rows, sd) if rows else "",
        waterfall=charts.waterfall_chart(bars, words.metric_name(summary.headline.metric)) if bars else "",
        ttft=charts.distribution_chart(latencies.ttft, "ttft", "time to first token, ms") if latencies.ttft else "",
        tpot=charts.distribution_chart(latencies.tpot, "tpot", "time per output token, ms") if latencies.tpot else "",
        curve=charts.level_chart(summary.curve) if summary.curve else "",
        fronts=charts.front_chart(summary.curve) if summary.curve else "",
        course=tuple(charts.track_chart(track) for track in sources.course),
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("servesmith.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["svg"] = Markup
    environment.filters["minus"] = words.true_minus
    return environment


def _script_safe(text: str) -> str:
    """JSON that cannot end the script element that holds it."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _replace(path: Path, data: bytes) -> None:
    """A reader sees the old file or the whole new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)
