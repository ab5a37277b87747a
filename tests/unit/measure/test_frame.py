"""What is computed from columns equals what its formula gives record by record."""

import msgspec
import pytest
import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import MS, record, steady

from servesmith.measure.frame import exact_sum, frame_of, records_of
from servesmith.measure.goodput import REQUEST_LIMITS, goodput
from servesmith.measure.metrics import METRICS, compute, samples
from servesmith.measure.records import RequestRecord, Window

APART = ("steady_from_s", "lock_step")
"""Not one formula but a search; tested on their own."""


@st.composite
def requests(draw) -> RequestRecord:
    """Anything that a load can leave: merged reads, any kinds of chunks, unknown tokens, every kind of end."""
    due = draw(st.integers(0, 1000))
    sent = due + draw(st.integers(0, 30))
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 7, 20, 300]), max_size=12))
    stamps, stamp = [], sent
    for gap in gaps:
        stamp += gap
        stamps.append(stamp)
    error = draw(st.sampled_from(["", "", "", "cancelled", "cut", "http-status"]))
    return RequestRecord(
        index=draw(st.integers(0, 99)),
        stream=draw(st.integers(0, 3)),
        due_ns=due * MS,
        sent_ns=sent * MS,
        end_ns=(stamp + draw(st.integers(0, 5))) * MS,
        chunk_ns=tuple(s * MS for s in stamps),
        chunk_tokens=tuple(draw(st.sampled_from([0.0, 1.0, 4.0, 0.7, 1.1])) for _ in stamps),
        chunk_kinds=tuple(draw(st.integers(0, 5)) for _ in stamps),
        prompt_tokens_meant=draw(st.sampled_from([0, 10])),
        prompt_tokens=draw(st.sampled_from([-1, 0, 10, 12])),
        cached_tokens=draw(st.sampled_from([-1, 0, 4])),
        output_tokens=draw(st.sampled_from([-1, 0, 1, 2, 9])),
        token_source=draw(st.sampled_from(["ids", "usage", "none", "one-per-chunk"])),
        stamp_source=draw(st.sampled_from(["kernel", "loop"])),
        client_lag_ns=draw(st.integers(0, 3 * MS)),
        error=error,
    )


DROPPED = st.builds(
    lambda due: RequestRecord(index=0, stream=0, due_ns=due * MS, sent_ns=due * MS, end_ns=due * MS, error="dropped"),
    st.integers(0, 1500),
)
RECORDS = st.lists(st.one_of(requests(), requests(), DROPPED), max_size=12)
WINDOWS = st.builds(
    lambda start, length: Window(start * MS, (start + length) * MS), st.integers(0, 900), st.integers(2, 1500)
)


@settings(deadline=None, max_examples=300)
@given(RECORDS, WINDOWS)
def test_columns_give_what_the_formulas_give(records, span):
    found = {key: metric.value for key, metric in compute(records, span).items() if key not in APART}
    meant = {key: value for key, value in slow.numbers(records, span).items() if key in METRICS}
    assert found.keys() == meant.keys()
    assert found == pytest.approx(meant, rel=1e-12, abs=1e-12)


@settings(deadline=None, max_examples=300)
@given(
    RECORDS,
    WINDOWS,
    st.dictionaries(st.sampled_from(REQUEST_LIMITS), st.sampled_from([0.02, 1.0, 10.0, 60.0, 400.0]), min_size=1),
)
def test_goodput_judges_each_request_as_one_by_one(records, span, limits):
    fates = [slow.fate(record, limits) for record in records]
    inside = [says for says, at in fates if span.start_ns <= at < span.end_ns]
    found = goodput(frame_of(records), span, limits)
    met, lost = inside.count("met"), inside.count("lost")
    if not met + lost:
        assert found is None
        return
    assert (found.met, found.judged, found.unjudged) == (met, met + lost, inside.count("unknown"))
    assert found.low <= found.share == met / (met + lost) <= found.high


@given(RECORDS)
def test_records_come_back_from_columns(records):
    assert records_of(frame_of(records)) == tuple(records)


@given(RECORDS, WINDOWS)
def test_samples_are_those_of_the_metrics(records, span):
    assert {stem: pytest.approx(sample) for stem, sample in samples(records, span).items()} == slow.samples(
        records, span
    )


def test_chunk_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="request 7"):
        frame_of([msgspec.structs.replace(record(0, 10, 1, 3, index=7), chunk_tokens=(1.0,))])


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_a_sum_does_not_hang_on_the_order(values):
    import numpy as np

    assert exact_sum(np.array(values)) == exact_sum(np.array(values[::-1]))


def test_first_and_last_token_of_requests_with_and_without_tokens():
    bare = RequestRecord(index=0, stream=0, due_ns=0, sent_ns=0, end_ns=5)
    role_only = RequestRecord(
        index=0, stream=0, due_ns=0, sent_ns=0, end_ns=5, chunk_ns=(3,), chunk_tokens=(0.0,), chunk_kinds=(0,)
    )
    records = [bare, *steady(cycles=2), role_only, bare]
    frame = frame_of(records)
    assert frame.first_token.there.tolist() == [r.first_token_ns is not None for r in records]
    for place in frame.first_token.there.nonzero()[0]:
        assert frame.first_token.at_ns[place] == records[place].first_token_ns
        assert frame.last_token_ns[place] == records[place].last_token_ns
    assert not frame_of([bare, bare]).first_token.there.any()
