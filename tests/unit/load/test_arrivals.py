"""Arrivals against their definition: rising, reproducible, as many as the rate says, and without drift."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from shareddata import shared_data

from servesmith.errors import InputError
from servesmith.load.arrivals import expected_arrivals, schedule
from servesmith.recipe.model import Arrivals, Step

S = 1_000_000_000

rates = st.floats(0.5, 200)
steps = st.lists(st.builds(Step, rate=st.floats(0, 60), seconds=st.floats(0.5, 5)), min_size=1, max_size=5)


@st.composite
def any_arrivals(draw):
    process = draw(st.sampled_from(["poisson", "gamma", "constant", "ramp", "steps"]))
    fields = {"process": process}
    if process == "steps":
        first = Step(rate=draw(rates), seconds=2)
        fields["steps"] = (first, *draw(steps))
    else:
        fields["rate"] = draw(rates)
    if process in ("gamma", "ramp", "steps"):
        fields["burstiness"] = draw(st.sampled_from([0.1, 0.5, 1.0, 4.0]))
    if process in ("ramp", "steps"):
        fields["spacing"] = draw(st.sampled_from(["random", "even"]))
    if process == "ramp":
        fields["to_rate"] = draw(st.one_of(st.just(0.0), rates, st.just(fields["rate"])))
    return Arrivals(**fields)


def due(arrivals, seed=1, seconds=10.0):
    try:
        return schedule(arrivals, seed, seconds).due_ns
    except InputError as error:
        assert "Nothing is due" in str(error)
        return ()


@given(any_arrivals(), st.integers(0, 2**63), st.floats(0.5, 20))
@settings(max_examples=200, deadline=None)
def test_due_times_rise_inside_the_duration_and_follow_from_the_seed(arrivals, seed, seconds):
    times = due(arrivals, seed, seconds)
    assert all(isinstance(time, int) for time in times)
    assert all(a <= b for a, b in pairwise(times))
    assert not times or (times[0] >= 0 and times[-1] < seconds * S)
    assert times == due(arrivals, seed, seconds)


@given(any_arrivals(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_number_of_arrivals_is_what_the_rate_says(arrivals, seed):
    """A renewal process of shape b has about N +- sqrt(N / b) arrivals; even ones are exact to within one."""
    expected = expected_arrivals(arrivals, 10.0)
    even = arrivals.process == "constant" or (arrivals.process in ("ramp", "steps") and arrivals.spacing == "even")
    b = arrivals.burstiness
    margin = 1 if even else 8 * (expected / b) ** 0.5 + 8 / b + 8
    assert abs(len(due(arrivals, seed)) - expected) <= margin


@given(st.sampled_from(["poisson", "gamma", "constant"]), rates, st.integers(0, 2**32), st.floats(1, 30))
@settings(max_examples=80, deadline=None)
def test_a_longer_load_begins_like_a_shorter_one(process, rate, seed, seconds):
    arrivals = Arrivals(process=process, rate=rate, **({"burstiness": 0.4} if process == "gamma" else {}))
    short = due(arrivals, seed, seconds)
    assert due(arrivals, seed, 2 * seconds)[: len(short)] == short


def test_seeds_differ():
    assert due(Arrivals(rate=50), 1) != due(Arrivals(rate=50), 2)


@pytest.mark.parametrize("rate", [3, 7.3, 500, 12345.678])
def test_constant_has_no_drift(rate):
    times = due(Arrivals(process="constant", rate=rate), seconds=60)
    exact = [Fraction(k * S) / Fraction(rate) for k in range(len(times))]
    assert max(abs(time - want) for time, want in zip(times, exact, strict=True)) < 2  # ns, after 60 s


@pytest.mark.parametrize(("rate", "to_rate"), [(0, 50), (50, 0), (20, 20), (10, 300), (300, 10), (20, 20.0000001)])
def test_an_even_ramp_inverts_the_cumulative_rate(rate, to_rate):
    times = due(Arrivals(process="ramp", rate=rate, to_rate=to_rate, spacing="even"), seconds=40)
    a, b, seconds = Fraction(rate), Fraction(to_rate), 40
    for k, time in enumerate(times):
        early, late = (Fraction(max(0, time + by), S) for by in (-2, 2))
        reached = [a * t + (b - a) * t * t / (2 * seconds) for t in (early, late)]
        assert reached[0] - Fraction(1, 10**5) <= k <= reached[1] + Fraction(1, 10**5)
    assert abs(len(times) - (rate + to_rate) / 2 * seconds) <= 1


def test_a_random_ramp_becomes_denser_as_its_rate_does():
    times = np.array(due(Arrivals(process="ramp", rate=0, to_rate=200), 3, 60)) / S
    counts, _ = np.histogram(times, bins=6, range=(0, 60))
    expected = np.array([(2 * n + 1) * 200 / 12 * 10 for n in range(6)])
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_steps_keep_each_rate_for_its_time_and_rest_in_a_pause():
    stairs = (Step(rate=10, seconds=2), Step(rate=0, seconds=3), Step(rate=40, seconds=5))
    even = due(Arrivals(process="steps", steps=stairs, spacing="even"))
    assert [sum(a * S <= time < b * S for time in even) for a, b in ((0, 2), (2, 5), (5, 10))] == [20, 0, 200]
    drawn = due(Arrivals(process="steps", steps=stairs), 4)
    assert not [time for time in drawn if 2 * S < time < 5 * S]
    assert sum(time >= 5 * S for time in drawn) == pytest.approx(200, abs=60)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_gaps_are_exponential(seed):
    gaps = np.diff(due(Arrivals(rate=100), seed, 200)) / S
    assert kstest(gaps, "expon", args=(0, 0.01)).pvalue > 0.001


@pytest.mark.parametrize("burstiness", [0.1, 0.5, 1.0, 4.0, 100.0])
def test_burstiness_is_the_shape_of_the_gaps(burstiness):
    gaps = np.diff(due(Arrivals(process="gamma", rate=200, burstiness=burstiness), 5, 200)) / S
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.05)


def test_gamma_of_shape_one_is_poisson():
    assert due(Arrivals(process="gamma", rate=30, burstiness=1.0), 9) == due(Arrivals(rate=30), 9)


def test_the_schedule_of_a_seed_stays_what_it_is():
    """Recorded runs are repeated by their seed: these times may never change."""
    times = due(Arrivals(rate=2), 7, 3)
    assert len(times) == len(PINNED)
    assert max(abs(a - b) for a, b in zip(times, PINNED, strict=True)) <= 2  # ns: logarithms differ in their last digit


@pytest.mark.parametrize(
    ("arrivals", "seconds", "words"),
    [
        (Arrivals(rate=1e6), 10, "1,000,000 can be held"),
        (Arrivals(rate=1e-9), 10, "Raise the rate"),
        (Arrivals(process="steps", steps=(Step(rate=0, seconds=9), Step(rate=1, seconds=1))), 5, "Nothing is due"),
    ],
)
def test_what_cannot_be_is_refused(arrivals, seconds, words):
    with pytest.raises(InputError, match=words):
        schedule(arrivals, 1, seconds)


def trace_file(tmp_path, seconds):
    lines = [{"timestamp": s, "input_length": 20 + n, "output_length": 5} for n, s in enumerate(seconds)]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return {"process": "trace", "trace": str(path), "trace_format": "timed"}


def test_a_trace_is_replayed_with_its_own_gaps_and_lengths(tmp_path):
    planned = schedule(Arrivals(**trace_file(tmp_path, [100, 101.5, 103, 120])), 1, 10)
    assert planned.due_ns == (0, 1_500_000_000, 3 * S)
    assert [row.prompt_tokens for row in planned.trace.rows] == [20, 21, 22]
    assert planned.notes == ("1 of 4 rows of the trace are due after the window's end: not sent",)


def test_a_part_of_a_trace_at_another_speed(tmp_path):
    arrivals = Arrivals(**trace_file(tmp_path, [0, 4, 6, 9, 30]), start_s=3, end_s=10, speedup=2.0)
    planned = schedule(arrivals, 1, 10)
    assert planned.due_ns == (500_000_000, 1_500_000_000, 3 * S)  # the second of silence is kept, at half its length
    assert planned.notes == ("the trace ends after 3.5 s, the load after 10 s",)


@pytest.mark.parametrize(
    "name", ["mooncake_conversation_first1000.jsonl", "azure_code_2023_first2000.csv", "azure_conv_2023_first2000.csv"]
)
def test_whole_traces_at_ten_times_their_speed(name):
    path = str(shared_data(f"traces/{name}"))
    slow = schedule(Arrivals(process="trace", trace=path), 1, 1000)
    fast = schedule(Arrivals(process="trace", trace=path, speedup=10), 1, 100)
    assert len(slow.due_ns) == len(fast.due_ns) == (1000 if "moon" in name else 2000)
    assert max(abs(a - 10 * b) for a, b in zip(slow.due_ns, fast.due_ns, strict=True)) <= 5


PINNED = (1167574121, 1318721448, 1886644585, 1962352373, 2320315990, 2958194435)
