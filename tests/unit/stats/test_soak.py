"""The verdict on a soak: known trends, and how well its bounds hold when neighbouring bins are alike."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.stats.soak import BINS, SHORTEST, Errors, SoakRules, count_errors, judge_soak, trend

RULES = SoakRules()
CLEAN = count_errors([True] * 1000, (0,) * 10, RULES)


def series(change, sd, draw, alike=0.0, n=BINS):
    """A line through 100 that changes by `change` from end to end, with AR(1) noise."""
    noise, out = draw.gauss(0, sd), []
    for place in range(n):
        noise = alike * noise + math.sqrt(1 - alike * alike) * draw.gauss(0, sd)
        out.append(100 * (1 + change * ((place + 0.5) / n - 0.5) + noise))
    return out


def says(change=0.0, memory=(), errors=CLEAN, sd=0.005, **more):
    return judge_soak(series(change, sd, random.Random(3)), memory, errors, RULES, **more).says


def test_what_is_steady_and_what_is_not():
    flat, growing = series(0, 0.001, random.Random(4)), series(0.3, 0.001, random.Random(5))
    assert says() == "steady"
    assert says(memory=flat) == "steady"
    assert says(change=-0.15) == "degrading"
    assert says(change=0.15) == "steady"
    assert says(memory=growing) == "degrading"
    assert says(change=-0.05) == "undecided"
    assert says(sd=0.3) == "undecided"
    assert says(died="crash: segmentation fault") == "degrading"


def test_failures_beyond_what_is_borne_are_degrading():
    many = count_errors([True] * 960 + [False] * 40, (0,) * 9 + (40,), RULES)
    few = count_errors([True] * 985 + [False] * 15, (0,) * 10, RULES)
    assert (many.excess, many.within) == (True, False)
    assert says(errors=many) == "degrading"
    assert (few.excess, few.within) == (False, False)
    assert says(errors=few) == "undecided"
    assert count_errors([], (0,) * 10, RULES) == Errors(
        requests=0, failed=0, tenths=(0,) * 10, excess=False, within=True
    )


def test_memory_that_was_read_but_too_seldom_keeps_it_undecided():
    assert says(memory=[100.0] * (SHORTEST - 1)) == "undecided"


def test_too_few_bins_give_no_trend():
    assert trend([1.0] * (SHORTEST - 1), 0.95) is None
    assert trend([0.0] * BINS, 0.95) is None


@given(st.floats(-0.5, 0.5), st.floats(1, 1e6))
def test_a_straight_line_is_read_exactly(change, level):
    found = trend([level * (1 + change * ((place + 0.5) / BINS - 0.5)) for place in range(BINS)], 0.95)
    assert found.change == pytest.approx(change, abs=1e-9)
    assert found.low <= found.change <= found.high


@pytest.mark.parametrize(("alike", "allowed"), [(0.0, 0.05), (0.3, 0.06), (0.6, 0.07), (0.8, 0.09)])
def test_how_often_a_bound_misses(alike, allowed):
    """One-sided 95 % bounds; short AR(1) series cannot be corrected wholly, so more is allowed for the alike."""
    draw, runs = random.Random(f"bounds/{alike}"), 800
    found = [trend(series(-0.05, 0.02, draw, alike), 0.95) for _ in range(runs)]
    allowed += 2 * math.sqrt(allowed * (1 - allowed) / runs)
    assert sum(one.high < -0.05 for one in found) / runs <= allowed
    assert sum(one.low > -0.05 for one in found) / runs <= allowed
