import itertools
import math
import random

import numpy as np
import pytest
import rundata
from hypothesis import example, given
from hypothesis import strategies as st

from servesmith.measure.evidence import read_measured
from servesmith.measure.frame import frame_of
from servesmith.report.series import MOST_POINTS, lanes, latencies, tracks, waterfall
from servesmith.report.summary import summarise
from servesmith.store.journal import read_events


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series") / "run"
    rundata.tuned_run(folder, ("parallel=8", "batch=1024"))
    return summarise(read_events(folder))


def test_the_waterfall_starts_at_the_baseline_and_ends_at_the_final(summary):
    bars = waterfall(summary)
    assert [bar.label for bar in bars] == ["baseline", "parallel=8", "batch=1024", "together", "final recipe"]
    assert bars[0].end == summary.headline.baseline
    for before, after in itertools.pairwise(bars[:-1]):
        assert math.isclose(before.end, after.start)
    assert math.isclose(bars[-2].end, bars[-1].end)
    assert bars[-1].end == summary.headline.final


def test_steps_say_gain_or_loss(summary):
    for bar in waterfall(summary)[1:-1]:
        assert bar.kind == ("gain" if bar.end >= bar.start else "loss")
        assert bar.low <= bar.end <= bar.high or math.isclose(bar.end, bar.high)


def test_without_a_proof_there_is_no_waterfall(tmp_path):
    rundata.cut_run(tmp_path / "run")
    assert waterfall(summarise(read_events(tmp_path / "run"))) == ()


def test_what_decides_comes_first(summary):
    drawn = lanes(summary.comparisons)
    assert drawn[0].label == "final recipe"
    assert [lane.note for lane in drawn][-2:] == ["ablation: better", "ablation: better"]
    assert all(lane.low <= lane.effect <= lane.high for lane in drawn)


def test_curves_are_the_distribution_that_the_metrics_count(tuned):
    measured = read_measured(tuned / "trials" / "prove--block-1--A")
    found = latencies([("A", frame_of(measured.records), measured.window)])
    (curve,) = found.ttft
    samples = [
        (r.first_token_ns - r.sent_ns) / 1e6
        for r in measured.records
        if r.first_token_ns and measured.window.start_ns <= r.first_token_ns < measured.window.end_ns
    ]
    assert curve.size == len(samples)
    assert (curve.x[0], curve.x[-1]) == (round(min(samples), 4), round(max(samples), 4))
    assert curve.share[-1] == 1.0


def test_long_samples_are_thinned_and_keep_their_shape():
    records, window = rundata.simulate((), random.Random(1))
    (curve,) = latencies([("A", frame_of(records), window)] * 20).tpot
    assert len(curve.x) <= MOST_POINTS + 1
    assert list(curve.x) == sorted(curve.x)
    assert list(curve.share) == sorted(curve.share)
    assert np.interp(0.5, curve.share, curve.x) == pytest.approx(np.median(curve.x), rel=0.02)


def test_a_comparison_is_called_by_its_sides_and_not_by_a_recipe_of_any_name(tmp_path):
    run = rundata.compared_run(tmp_path / "run")
    summary = summarise(read_events(run.folder))
    assert [lane.label for lane in lanes(summary.comparisons)] == ["B against A"]


@given(st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=80))
@example("W" * 40)
@example("Qwen3-30B-A3B-Instruct-2507-FP8")
def test_a_label_is_cut_at_its_end_and_never_wider_than_its_margin(label):
    from servesmith.report.charts import _LABEL_ROOM, _label_width, _short

    short = _short(label)
    assert short == label or (short.endswith("…") and label.startswith(short[:-1]))
    assert sum(map(_label_width, short)) <= _LABEL_ROOM


def test_the_course_of_a_load_starts_with_its_first_request():
    records, window = rundata.simulate((), random.Random(1))
    found = {track.key: track for track in tracks(frame_of(records), window)}
    assert set(found) == {"rate", "flight", "first"}
    assert found["rate"].opens == pytest.approx((window.start_ns - records[0].sent_ns) / 1e9)
    assert all(len(track.x) == len(track.y) == 50 for track in found.values())
    assert max(found["flight"].y) <= rundata.STREAMS
    assert None in found["first"].y or min(found["first"].y) > 0
    assert tracks(frame_of([]), window) == ()
