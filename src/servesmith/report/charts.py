# pyright: reportUnknownMemberType=false
"""Charts as static SVG: no script, no font measuring, equal input gives equal bytes. The door to altair and vl-convert.

Colours are the page's CSS variables (`var(--a)`), so a chart follows dark, light and print without being drawn again.
Padding is fixed (`autosize: none`) and labels are placed, so nothing depends on the fonts of the rendering machine.
"""

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal

import altair as alt
import vl_convert

from servesmith.report.nouns import CurvePoint
from servesmith.report.series import Bar, Curve, Lane, Track, per_cent
from servesmith.report.words import true_minus

VEGA_LITE = "6.4"
"""The grammar of the charts; pinned, since another one may draw other bytes."""

WIDTH = 920
_LEFT = 200
_RIGHT = 40
_ROW = 50
_BAR_ROW = 42
_LABEL_GAP = 16
_LABEL_ROOM = _LEFT - _LABEL_GAP - 4
_NARROW = "ijltfr.,:;'|!-"
_NOTE_CHARACTER = 7.4
"""Pixels that a character of a note takes at most, on average."""
_AXIS = {
    "gridColor": "var(--grid)",
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "labelFontSize": 12,
    "titleFontSize": 12.5,
    "titleFontWeight": "normal",
    "titlePadding": 8,
    "labelLimit": 0,
    "titleLimit": 0,
}

Rows = list[dict[str, Any]]
Layer = alt.Chart
Layers = list[Layer]


def renderer() -> str:
    """What draws, with versions: bytes can be compared only between equal ones."""
    return f"altair {version('altair')}, vl-convert {version('vl-convert-python')}, Vega-Lite {VEGA_LITE}"


def blocks_chart(lanes: Sequence[Lane], noise_sd: float | None) -> str:
    """Every block's effect, one lane a decision, with interval, zero line and the band of the A/A noise."""
    band = [{"x": per_cent(-2 * noise_sd), "x2": per_cent(2 * noise_sd)}] if noise_sd else []
    points: Rows = [
        {"x": x, "y": _middle(place) + 0.3 * _offset(number, len(lane.points))}
        for place, lane in enumerate(lanes)
        for number, x in enumerate(lane.points)
    ]
    spans: Rows = [
        {"x": lane.effect, "low": lane.low, "high": lane.high, "y": _middle(place)}
        for place, lane in enumerate(lanes)
        if lane.effect is not None
    ]
    title = "gain in per cent (baseline over tuned, where less is better)"
    x, low, y = _x(title), _x(title, field="low"), _y(len(lanes))
    layers: Layers = [
        _chart(band).mark_rect(color="var(--band)").encode(x=x, x2="x2:Q"),
        _chart([{"x": 0}]).mark_rule(color="var(--ink)").encode(x=x),
        _chart(spans).mark_rule(color="var(--ink)", strokeWidth=2).encode(x=low, x2="high:Q", y=y),
        *_caps(spans, title, y),
        _chart(points).mark_circle(size=46, opacity=0.6, color="var(--b)").encode(x=x, y=y),
        _chart(spans).mark_point(shape="diamond", filled=True, size=80, opacity=1, color="var(--ink)").encode(x=x, y=y),
        *_labels([(lane.label, lane.note) for lane in lanes]),
    ]
    return _svg(alt.layer(*layers), "blocks", (WIDTH, _ROW * len(lanes)), "Effect of every block, by decision")


def waterfall_chart(bars: Sequence[Bar], unit: str) -> str:
    """From baseline to final: a floating bar for each kept lever, with the interval of its worth."""
    x = _x(unit, scale=alt.Scale(domain=[0, _room_for_notes(bars)], nice=False))
    y = _y(len(bars))
    rows: Rows = [
        {
            "y": _middle(place),
            "x": bar.start,
            "x2": bar.end,
            "low": bar.low,
            "high": bar.high,
            "end": max(bar.start, bar.end, bar.high),
            "kind": bar.kind,
            "text": true_minus(bar.note),
        }
        for place, bar in enumerate(bars)
    ]
    links: Rows = [{"x": bar.end, "y": _middle(place), "y2": _middle(place + 1)} for place, bar in enumerate(bars[:-1])]
    spans = [row for row in rows if row["high"] > row["low"]]
    layers: Layers = [
        _chart(links).mark_rule(color="var(--muted)", strokeDash=[2, 3]).encode(x=x, y=y, y2="y2:Q"),
        _chart(rows).mark_bar(height=20).encode(x=x, x2="x2:Q", y=y, color=_kinds()),
        _chart(spans).mark_rule(color="var(--ink)", strokeWidth=2).encode(x=_x(unit, field="low"), x2="high:Q", y=y),
        *_caps(spans, unit, y),
        _chart(rows)
        .mark_text(align="left", dx=10, fontSize=13, color="var(--ink)")
        .encode(x=_x(unit, field="end"), y=y, text="text:N"),
        *_labels([(bar.label, "") for bar in bars]),
    ]
    return _svg(alt.layer(*layers), "waterfall", (WIDTH, _BAR_ROW * len(bars)), "From baseline to final recipe")


def distribution_chart(curves: Sequence[Curve], name: str, title: str) -> str:
    """Share of requests at or under a latency, A dashed against B. A log axis if they lie more than 20-fold apart."""
    values = [x for curve in curves for x in curve.x]
    wide = min(values) > 0 and max(values) / min(values) > 20
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False, nice=False)
    ticks = _round_numbers(min(values), max(values)) if wide else None
    rows: Rows = [
        {"arm": curve.arm, "x": x, "share": share}
        for curve in curves
        for x, share in zip(curve.x, curve.share, strict=True)
    ]
    share = alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.95], format="%", grid=True, domain=False, ticks=False)
    lines = (
        _chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2.2)
        .encode(
            x=_x(title, scale=scale, ticks=ticks),
            y=alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=share),
            color=alt.Color("arm:N", legend=None, scale=alt.Scale(domain=["A", "B"], range=["var(--a)", "var(--b)"])),
            strokeDash=alt.StrokeDash("arm:N", legend=None, scale=alt.Scale(domain=["A", "B"], range=[[6, 3], [1, 0]])),
        )
    )
    return _svg(alt.layer(lines), name, (450, 230), title, left=50)


def front_chart(points: Sequence[CurvePoint]) -> str:
    """Tokens/s of all streams against tokens/s that one of them sees, a point a level."""
    rows: Rows = [
        {"x": p.interactivity, "y": p.output_tokens_per_s, "level": str(p.level), "front": "interactivity" in p.front}
        for p in points
        if p.interactivity and p.output_tokens_per_s
    ]
    return _levels(rows, "fronts", "tokens/s that one stream sees")


def level_chart(points: Sequence[CurvePoint]) -> str:
    """Tokens/s of all streams against the time to the first token (p95), a point a level."""
    rows: Rows = [
        {"x": p.ttft_p95_ms, "y": p.output_tokens_per_s, "level": str(p.level), "front": "ttft" in p.front}
        for p in points
        if p.ttft_p95_ms and p.output_tokens_per_s
    ]
    return _levels(rows, "levels", "time to first token (p95), ms")


def _levels(rows: Rows, name: str, title: str) -> str:
    """A curve through all levels in their order; those on the front are filled."""
    if not rows:
        return ""
    rows = [{**row, "order": place} for place, row in enumerate(rows)]
    values = [row["x"] for row in rows]
    wide = max(values) / min(values) > 20
    scale = alt.Scale(type="log", nice=False, padding=24) if wide else alt.Scale(zero=False, nice=True, padding=24)
    x = _x(title, scale=scale, ticks=_round_numbers(min(values), max(values)) if wide else None)
    axis = alt.Axis(grid=True, domain=False, ticks=False, tickCount=5)
    y = alt.Y("y:Q", title="tokens/s of all streams", axis=axis, scale=alt.Scale(zero=True, padding=12))
    fill = alt.Fill("front:N", legend=None, scale=alt.Scale(domain=[True, False], range=["var(--b)", "var(--paper)"]))
    layers: Layers = [
        _chart(rows).mark_line(color="var(--grid)", strokeWidth=1.5).encode(x=x, y=y, order="order:Q"),
        _chart(rows).mark_point(size=70, opacity=1, stroke="var(--b)", strokeWidth=2).encode(x=x, y=y, fill=fill),
        _chart(rows).mark_text(dy=-12, fontSize=11.5, color="var(--ink)").encode(x=x, y=y, text="level:N"),
    ]
    return _svg(alt.layer(*layers), name, (450, 230), f"Throughput against {title}", left=70)


def track_chart(track: Track) -> str:
    """One quantity over the seconds of a load, with a stroke where the window opens. Parts without a value are gaps."""
    rows: Rows = [{"x": x, "y": y} for x, y in zip(track.x, track.y, strict=True)]
    axis = alt.Axis(grid=True, domain=False, ticks=False, tickCount=4)
    y = alt.Y("y:Q", title=None, axis=axis, scale=alt.Scale(zero=True, nice=True))
    x = _x(f"{track.title}, over seconds", scale=alt.Scale(zero=True, nice=False))
    layers: Layers = [
        _chart([{"x": track.opens}]).mark_rule(color="var(--muted)", strokeDash=[2, 3]).encode(x=x),
        _chart(rows).mark_line(color="var(--b)", strokeWidth=1.8, interpolate="linear").encode(x=x, y=y),
        _chart([row for row in rows if row["y"] is not None])
        .mark_circle(color="var(--b)", size=9, opacity=1)
        .encode(x=x, y=y),
    ]
    return _svg(alt.layer(*layers), f"course-{track.key}", (450, 150), f"{track.title} over time", left=70)


def _chart(rows: Rows) -> Layer:
    return alt.Chart(alt.Data(values=rows))


def _x(
    title: str,
    *,
    field: str = "x",
    scale: alt.Scale | None = None,
    ticks: Sequence[float] | None = None,
) -> alt.X:
    """The quantitative x of every chart. All layers of a chart give the same title, which then stands there once."""
    axis = alt.Axis(labelOverlap=False, grid=True, domain=False, ticks=False, labelPadding=6, tickCount=6)
    if ticks:
        axis.values = ticks
    return alt.X(f"{field}:Q", title=title, axis=axis, scale=scale or alt.Undefined)


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between low and high."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        value for power in powers for value in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= value <= high
    ]


def _y(lanes: int) -> alt.Y:
    """Lanes from top to bottom, one unit each, without an axis: labels are placed by hand."""
    return alt.Y("y:Q", title=None, axis=None, scale=alt.Scale(domain=[lanes, 0], nice=False))


def _middle(place: int) -> float:
    return place + 0.5


def _room_for_notes(bars: Sequence[Bar]) -> float:
    """End of the waterfall's axis, so that every note has its place to the right of its bar."""
    width = WIDTH - _LEFT - _RIGHT
    shares = [(10 + _NOTE_CHARACTER * len(bar.note)) / width for bar in bars]
    return max(max(bar.start, bar.end, bar.high) / (1 - share) for bar, share in zip(bars, shares, strict=True))


def _offset(number: int, count: int) -> float:
    """From -1 to 1, so that blocks lie one under the other in the order in which they ran."""
    return 2 * number / (count - 1) - 1 if count > 1 else 0.0


def _caps(spans: Rows, title: str, y: alt.Y) -> Layers:
    """Short strokes at both ends of each interval."""
    return [
        _chart(spans).mark_tick(color="var(--ink)", thickness=2, size=11).encode(x=_x(title, field=end), y=y)
        for end in ("low", "high")
    ]


def _labels(labels: Sequence[tuple[str, str]]) -> Layers:
    """Names left of the lanes, in two lines where there is a note."""
    y = _y(len(labels))
    rows: Rows = [{"y": _middle(place), "name": _short(name)} for place, (name, _) in enumerate(labels)]
    notes: Rows = [{"y": _middle(place), "note": note} for place, (_, note) in enumerate(labels) if note]
    shift = -8 if notes else 0
    return [
        _chart(rows)
        .mark_text(align="right", fontSize=13, fontWeight=600, color="var(--ink)", dy=shift)
        .encode(x=alt.value(-_LABEL_GAP), y=y, text="name:N"),
        _chart(notes)
        .mark_text(align="right", fontSize=11.5, color="var(--muted)", dy=9)
        .encode(x=alt.value(-_LABEL_GAP), y=y, text="note:N"),
    ]


def _short(label: str) -> str:
    """As much of a label as its margin holds: it stands right, so what is too long would lose its beginning."""
    ends = list(itertools.accumulate(map(_label_width, label)))
    if not ends or ends[-1] <= _LABEL_ROOM:
        return label
    return label[: bisect.bisect_right(ends, _LABEL_ROOM - _label_width("m"))] + "…"


def _label_width(character: str) -> float:
    """Pixels of a character of a label, on the generous side of the usual fonts."""
    if character in _NARROW:
        return 4.5
    return 12.0 if character.isupper() or character in "mw@%" or not character.isascii() else 7.6


def _kinds() -> alt.Color:
    kinds: list[Literal["base", "gain", "loss", "final"]] = ["base", "gain", "loss", "final"]
    return alt.Color(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=kinds, range=["var(--a)", "var(--good)", "var(--bad)", "var(--b)"]),
    )


def _svg(
    chart: alt.LayerChart | alt.FacetChart, name: str, size: tuple[int, int], title: str, *, left: int = _LEFT
) -> str:
    """Render, then make it fit for a page: scalable, no background, ids that no other chart of the page has."""
    width, height = size
    spec: dict[str, Any] = chart.to_dict()
    spec |= {
        "width": width - left - _RIGHT,
        "height": height,
        "autosize": {"type": "none"},
        "padding": {"left": left, "right": _RIGHT, "top": 10, "bottom": 46},
        "background": "transparent",
        "config": {"font": "inherit", "view": {"stroke": None}, "axis": _AXIS},
    }
    return _fit_for_page(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE), name, title)


def _fit_for_page(svg: str, name: str, title: str) -> str:
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'<rect width="[\d.]+" height="[\d.]+" fill="transparent"/>', "", svg)
    svg = re.sub(
        r'^<svg [^>]*?viewBox="([^"]+)">', rf'<svg class="chart" viewBox="\1" role="img"><title>{title}</title>', svg
    )
    return svg.replace(' font-family="inherit"', "")
