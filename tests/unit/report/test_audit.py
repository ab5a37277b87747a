import re

import pytest
import rundata
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import EvidenceError
from servesmith.report import charts
from servesmith.report.audit import _first_difference, audit, audit_run, differences
from servesmith.report.page import PAGE, SUMMARY, write_report
from servesmith.store.events import TrialStarted
from servesmith.store.journal import Journal, read_events


def test_an_honest_run_passes_every_check(tuned):
    checks = audit_run(tuned)
    assert [check.name for check in checks] == [
        "journal", "closed", "inputs", "files", "identity", "numbers", "noise", "verdicts", "gates",
        "summary.json", "report.html",
    ]  # fmt: skip
    assert all(check.ok for check in checks)


@pytest.mark.parametrize(
    "make",
    [rundata.compared_run, rundata.benched_run, lambda f: rundata.benched_run(f, failure="crash")],
)
def test_every_kind_of_run_passes(tmp_path, make):
    make(tmp_path / "run")
    write_report(tmp_path / "run")
    assert all(check.ok for check in audit_run(tmp_path / "run"))


def test_an_unfinished_run_is_no_evidence_and_says_why(tmp_path):
    rundata.cut_run(tmp_path / "run")
    write_report(tmp_path / "run")
    with pytest.raises(EvidenceError, match=r"^journal\.jsonl: has no end: the run was broken off \(.*--resume"):
        audit_run(tmp_path / "run")


def change_text(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_number_of_the_summary_that_was_changed_is_named_with_its_place(tuned_copy):
    text = (tuned_copy / SUMMARY).read_text()
    ratio = re.search(r'"ratio": (1\.\d+)', text).group(1)
    change_text(tuned_copy / SUMMARY, f'"ratio": {ratio}', '"ratio": 1.99')
    with pytest.raises(EvidenceError, match=r"^summary\.json.*headline\.uplift\.ratio is 1\.99, the journal gives"):
        audit_run(tuned_copy)


def test_a_change_deep_in_a_long_line_is_shown_and_not_what_stands_about_it():
    line = f"<svg>{'<path d=M0/>' * 400}"
    told = _first_difference(f"{line}<text>31.5</text>{line}", f"{line}<text>41.5</text>{line}")
    assert "<text>31.5" in told
    assert "<text>41.5" in told
    assert told.startswith("line 1 says ")
    assert len(told) < 160


def test_a_number_of_the_page_that_was_changed_is_named_with_its_line(tuned_copy):
    text = (tuned_copy / PAGE).read_text()
    uplift = re.search(r'<p class="big">([\d.]+x)', text).group(1)
    change_text(tuned_copy / PAGE, f'<p class="big">{uplift}', '<p class="big">9.99x')
    with pytest.raises(EvidenceError, match=r"^report\.html.*line \d+ says '.*9\.99x"):
        audit_run(tuned_copy)


def test_a_point_of_a_chart_that_was_moved_shows(tuned_copy):
    text = (tuned_copy / PAGE).read_text()
    place = re.search(r'transform="translate\((\d+\.\d+),', text).group(1)
    change_text(tuned_copy / PAGE, f"translate({place},", "translate(1.5,")
    with pytest.raises(EvidenceError, match=r"^report\.html"):
        audit_run(tuned_copy)


def test_summary_and_page_may_be_deleted(tuned_copy):
    for name in (SUMMARY, PAGE):
        (tuned_copy / name).unlink()
    told = {check.name: check for check in audit_run(tuned_copy)}
    assert "is not there" in told[PAGE].detail
    assert "is not there" in told[SUMMARY].detail


def test_all_files_that_differ_are_named(tuned_copy):
    (tuned_copy / SUMMARY).write_text("{")
    change_text(tuned_copy / PAGE, "servesmith", "bolderclaims")
    with pytest.raises(EvidenceError) as raised:
        audit_run(tuned_copy)
    assert "summary.json: is no JSON any more" in str(raised.value)
    assert "report.html: is not the page of this run" in str(raised.value)


def test_a_page_drawn_by_another_version_is_held_to_its_text(tuned_copy, monkeypatch):
    page = (tuned_copy / PAGE).read_text()
    (tuned_copy / PAGE).write_text(page.replace(charts.renderer(), "another renderer").replace("<circle", "<other"))
    told = {check.name: check for check in audit(tuned_copy)}
    assert told[PAGE].ok
    assert "another renderer, which is not here" in told[PAGE].detail
    change_text(tuned_copy / PAGE, '<p class="big">passed', '<p class="big">flawless')
    assert not {check.name: check for check in audit(tuned_copy)}[PAGE].ok


def test_a_published_page_pins_the_journal(tuned_copy, tmp_path):
    """A journal that was forged anew, with every number the same, is not the one that the page names."""
    events = list(read_events(tuned_copy))
    noted = next(place for place, event in enumerate(events) if isinstance(event, TrialStarted))
    events[noted] = TrialStarted(key=events[noted].key, at="another day")
    (tuned_copy / "journal.jsonl").unlink()
    with Journal.create(tuned_copy, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    bad = [check.name for check in audit(tuned_copy) if not check.ok]
    assert bad == [SUMMARY, PAGE]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_a_key_that_is_gone_or_new_is_named():
    assert list(differences({"a": {"new": None}}, {"a": {"b": None}})) == [
        "a.b is missing",
        "a.new does not belong there",
    ]


@given(json_values)
def test_equal_documents_do_not_differ(value):
    assert list(differences(value, value)) == []


@given(json_values, json_values)
def test_unequal_documents_differ_somewhere(one, other):
    assert bool(list(differences(one, other))) == (one != other or _kinds(one) != _kinds(other))


def _kinds(value):
    return type(value) if isinstance(value, dict | list) else None
