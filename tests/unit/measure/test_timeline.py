from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import MS, record, steady, window

from servesmith.measure.frame import frame_of
from servesmith.measure.metrics import compute
from servesmith.measure.timeline import timeline


def test_parts_add_up_to_the_whole():
    span = window(1000, 3000)
    found = timeline(frame_of(steady()), span)
    assert len(found.start_s) == 50 and found.part_s == pytest.approx(0.04) and found.start_s[10] == pytest.approx(0.4)
    rate = compute(steady(), span)["output_tokens_per_s"].value
    assert sum(found.output_tokens_per_s) / 50 == pytest.approx(rate)
    assert set(found.ttft_p50_ms) <= {None, 50.0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 900)), max_size=12), st.integers(1, 20))
def test_requests_in_flight_are_their_time_in_each_part(spans, bins):
    records = [record(sent, sent, 0, 1, end_ns=(sent + length) * MS) for sent, length in spans]
    found = timeline(frame_of(records), window(500, 2500), bins)
    edges = [500 * MS + 2000 * MS * n // bins for n in range(bins + 1)]
    meant = [
        sum(max(0, min(r.end_ns, high) - max(r.sent_ns, low)) for r in records) / (high - low)
        for low, high in pairwise(edges)
    ]
    assert found.in_flight == pytest.approx(meant, abs=1e-6)


def test_an_empty_span_is_refused():
    with pytest.raises(ValueError, match="span of time"):
        timeline(frame_of(steady()), window(5, 5))
