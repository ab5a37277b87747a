import json
import re
import shutil
from html.parser import HTMLParser

import msgspec
import pytest
import rundata

from servesmith.report import charts
from servesmith.report.page import PAGE, SUMMARY, render, write_report
from servesmith.report.series import Curve, Lane
from servesmith.report.sources import read_sources
from servesmith.report.summary import encode, read_summary, summarise
from servesmith.report.words import percent
from servesmith.store.events import Noted, TrialEnded
from servesmith.store.journal import read_events

VOID = {"meta", "link", "br", "img", "input", "hr"}
DRAWN_EMPTY = {"path", "rect", "line", "circle"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and gathers what a browser would load, run and show."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.ids: list[str] = []
        self.shown = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.loads += [found[name] for name in ("src", "href", "srcset", "data", "action") if found.get(name)]
        self.ids += [found["id"]] if "id" in found else []
        if tag == "script":
            self.scripts.append(found.get("type", "text/javascript"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.shown += data


@pytest.fixture(scope="module")
def page(tuned) -> str:
    return (tuned / PAGE).read_text()


@pytest.fixture(scope="module")
def summary(tuned):
    return read_summary(tuned)


def test_it_opens_without_a_network_and_runs_no_script(page):
    read = Reader(page)
    assert read.open == []
    assert read.loads == []
    assert read.scripts == ["application/json"]
    outside = re.findall(r"(?:https?:)?//[^\s\"'<)]+|@import|url\([^#)]", page)
    assert set(outside) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_ids_are_unique(page):
    ids = Reader(page).ids
    assert len(ids) == len(set(ids))


def test_verdict_comes_first_and_all_numbers_are_there(page, summary):
    shown = Reader(page).shown.replace("\N{MINUS SIGN}", "-")
    assert shown.index(summary.headline.sentence) < shown.index("Every block")
    for comparison in summary.comparisons:
        for point in comparison.points:
            assert f"{point.a:.1f}".removesuffix(".0") in shown
    for change in summary.changes:
        assert change.effect is None or percent(change.effect.ratio) in shown
    for row in summary.levers:
        assert row.because in shown
    for text in ("terminate: bad thread pool", summary.case_hash, summary.recipe_hash, "llama-server --model"):
        assert text in shown
    assert f"servesmith verify runs/{summary.name}" in shown


def test_the_page_pins_its_journal(page, tuned):
    last = json.loads((tuned / "journal.jsonl").read_text().splitlines()[-1])
    assert f"<dt>journal</dt><dd><code>{last['check']}</code>" in page


def test_the_page_carries_its_summary_for_machines(page, tuned):
    document = re.search(r'<script type="application/json" id="summary">(.*?)</script>', page, re.DOTALL).group(1)
    assert json.loads(document) == json.loads((tuned / SUMMARY).read_text())


def test_equal_input_gives_equal_bytes(tuned, summary, page):
    charts.blocks_chart([Lane("other", "", (1.0, 2.0), 1.5, 1.0, 2.0)], 0.01)
    charts.distribution_chart([Curve("A", (1.0, 50.0), (0.0, 1.0), 2)], "x", "between two renderings")
    assert render(summary, read_sources(tuned, summary)) == page


def test_writing_again_changes_nothing(tuned_copy):
    before = {name: (tuned_copy / name).read_bytes() for name in (PAGE, SUMMARY)}
    write_report(tuned_copy)
    assert {name: (tuned_copy / name).read_bytes() for name in (PAGE, SUMMARY)} == before
    assert not list(tuned_copy.glob("*.partial"))


def test_charts_follow_the_page_and_name_no_colour(page):
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(svgs) == 4
    for svg in svgs:
        assert not re.search(r"(?:fill|stroke)=\"(?:#|rgb|black|white|steelblue)", svg)
        assert 'viewBox="0 0' in svg
        assert "<title>" in svg


def test_text_of_others_stays_text(tuned, summary):
    evil = '</script><script>alert(1)</script><img src=x onerror="x">'
    events = [
        msgspec.structs.replace(event, result=msgspec.structs.replace(event.result, log_line=evil))
        if isinstance(event, TrialEnded) and event.result.ending != "ok"
        else event
        for event in read_events(tuned)
    ]
    told = summarise([*events[:-1], Noted(note=evil), events[-1]])
    read = Reader(render(told, read_sources(tuned, told)))
    assert read.scripts == ["application/json"]
    assert read.loads == []
    assert evil in read.shown


def test_two_kept_levers_draw_a_waterfall_with_both(tmp_path):
    rundata.tuned_run(tmp_path / "run", ("parallel=8", "batch=1024"))
    write_report(tmp_path / "run")
    shown = Reader((tmp_path / "run" / PAGE).read_text()).shown
    assert "together" in shown
    assert shown.count("holds after Holm's correction over 2 levers") == 2
    assert "Each kept lever was left out of the final recipe in turn" in shown


@pytest.mark.parametrize(
    ("make", "chip", "charts_drawn"),
    [
        (rundata.compared_run, "worse", 3),
        (rundata.benched_run, "measured", 5),
        (lambda folder: rundata.benched_run(folder, failure="crash"), "failed", 0),
        (rundata.cut_run, "unfinished", 2),
    ],
)
def test_every_kind_of_run_has_a_page(tmp_path, make, chip, charts_drawn):
    make(tmp_path / "run")
    summary = write_report(tmp_path / "run")
    page = (tmp_path / "run" / PAGE).read_text()
    assert Reader(page).open == []
    assert f'<p class="chip">{chip}</p>' in page
    assert page.count("<svg") == charts_drawn
    assert (tmp_path / "run" / SUMMARY).read_bytes() == encode(summary)


def test_a_long_name_and_a_single_block_can_be_drawn():
    svg = charts.blocks_chart([Lane("a-name-that-is-much-longer-than-its-place", "x", (3.0,), None, 0, 0)], None)
    assert "a-name-that-is-much" in svg
    assert "longer-than-its-place" not in svg


def test_the_page_moves_with_its_folder(tuned_copy, tmp_path):
    before = (tuned_copy / PAGE).read_bytes()
    moved = shutil.move(tuned_copy, tmp_path / "elsewhere")
    write_report(moved)
    assert (moved / PAGE).read_bytes() == before
