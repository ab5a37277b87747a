import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.report.words import amount, gain, interval, metric_name, moment, percent, span, true_minus
from servesmith.stats.verdict import Estimate


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (163.74, "tokens/s", "163.7 tokens/s"),
        (12345.6, "tokens/s", "12,346 tokens/s"),
        (0.01234, "s", "0.01234 s"),
        (110.0, "", "110"),
        (0.0, "ms", "0 ms"),
        (0.125, "fraction", "12.5 %"),
        (4.5, "1/s", "4.5 /s"),
        (None, "ms", "not known"),
        (math.inf, "ms", "not known"),
    ],
)
def test_amounts(value, unit, told):
    assert amount(value, unit) == told


@given(st.floats(min_value=1e-4, max_value=1e9))
def test_an_amount_is_true_to_four_digits_and_has_no_exponent(value):
    told = amount(value)
    assert re.fullmatch(r"[\d,]+(\.\d+)?", told)
    assert math.isclose(float(told.replace(",", "")), value, rel_tol=1e-2 if value < 1e-3 else 1e-3)


@given(st.floats(min_value=0.01, max_value=100))
def test_percent_gives_the_ratio_back(ratio):
    assert math.isclose(1 + float(percent(ratio, 3).removesuffix(" %")) / 100, ratio, abs_tol=1e-5)


def test_no_negative_zero():
    assert percent(0.99999) == "+0.0 %"


def test_intervals():
    assert interval(Estimate(1.243, 1.18, 1.312, 0.95)) == "+24.3 % (+18.0 % to +31.2 %)"
    assert interval(None) == "-"


@pytest.mark.parametrize(
    ("estimate", "better", "told"),
    [
        (Estimate(1.25, 1.2, 1.3, 0.95), "higher", ("25.0 % more", "20.0 % to 30.0 %")),
        (Estimate(0.8, 0.75, 0.9, 0.95), "higher", ("20.0 % less", "10.0 % to 25.0 %")),
        (Estimate(1.25, 1.2, 1.3, 0.95), "lower", ("20.0 % less", "16.7 % to 23.1 %")),
        (Estimate(0.8, 0.75, 0.9, 0.95), "lower", ("25.0 % more", "11.1 % to 33.3 %")),
        (Estimate(1.01, 0.99, 1.03, 0.95), "higher", ("1.0 % more", "-1.0 % to 3.0 %")),
        (Estimate(0.99, 0.97, 1.01, 0.95), "higher", ("1.0 % less", "-1.0 % to 3.0 %")),
    ],
)
def test_gains_as_a_sentence_has_them(estimate, better, told):
    """A ratio above 1 is always better; of a latency that is `less`."""
    assert gain(estimate, better) == told


@pytest.mark.parametrize(("seconds", "told"), [(42.4, "42 s"), (425, "7 min 05 s"), (12_000, "3 h 20 min")])
def test_spans(seconds, told):
    assert span(seconds) == told


def test_moments_lose_their_seconds():
    assert moment("2026-12-01T12:34:56+01:00") == "2026-12-01 12:34 +01:00"
    assert moment("2026-12-01T12:34:56.789Z") == "2026-12-01 12:34 Z"
    assert moment("yesterday") == "yesterday"


def test_only_the_minus_of_a_number_becomes_one():
    assert true_minus("-1.2 % (-3 to 4) for ngram-4 by --draft-8") == "−1.2 % (−3 to 4) for ngram-4 by --draft-8"


def test_an_unknown_metric_stands_for_itself():
    assert metric_name("joules_per_token") == "joules_per_token"
