"""Order of arms, noise, limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.stats.compare import arm_orders, noise_of
from servesmith.stats.limits import limit_breach
from servesmith.stats.plan import detectable
from servesmith.stats.rules import Rules
from servesmith.stats.sample import SD_FLOOR


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(0, 1000))
def test_orders_are_balanced_in_every_pair_and_grow_without_changing(blocks, seed):
    orders = arm_orders(blocks, seed)
    assert len(orders) == blocks
    assert arm_orders(blocks + 3, seed)[:blocks] == orders
    for first, second in zip(orders[::2], orders[1::2], strict=False):
        assert first == second[::-1]


def test_orders_are_random_by_seed():
    seen = {arm_orders(6, seed) for seed in range(200)}
    assert len(seen) == 8  # three pairs, two orders each
    first = [arm_orders(1, seed)[0][0] for seed in range(2000)]
    assert 0.45 < first.count("A") / len(first) < 0.55


def test_a_steady_drift_cancels_within_each_pair_of_blocks():
    for seed in range(20):
        times = {"A": 0.0, "B": 0.0}
        for slot, arm in enumerate(arm for order in arm_orders(4, seed) for arm in order):
            times[arm] += slot
        assert times["A"] == times["B"]


def test_noise_is_the_root_mean_square_with_its_chi_square_interval():
    noise = noise_of([0.03, -0.01, 0.02])
    assert noise.sd == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.02**2) / 3))
    assert noise.low == pytest.approx(noise.sd * math.sqrt(3 / 7.8147), rel=1e-4)
    assert noise.high == pytest.approx(noise.sd * math.sqrt(3 / 0.35185), rel=1e-4)
    assert list(noise.detectable) == list(range(4, 13))
    assert noise.detectable[12] == detectable(noise.sd, 12, Rules().alpha)
    assert any("3 blocks is uncertain" in doubt for doubt in noise.doubts)


def test_the_noise_interval_covers_as_often_as_it_says():
    draw = np.random.default_rng(3).normal(0, 0.02, (300, 4))
    inside = [noise.low <= 0.02 <= noise.high for noise in (noise_of(row, Rules(looks=(4,))) for row in draw.tolist())]
    assert 0.86 < np.mean(inside) < 0.94


def test_no_noise_at_all_is_not_believed():
    noise = noise_of([0.0, 0.0, 0.0])
    assert noise.sd == SD_FLOOR
    assert any("assumed" in doubt for doubt in noise.doubts)
    with pytest.raises(InputError):
        noise_of([])
    with pytest.raises(InputError):
        noise_of([0.0, math.nan])


def test_a_limit_must_be_met_by_the_bound_and_not_by_the_mean():
    assert limit_breach("ttft_p95", [1.0, 1.1, 0.9, 1.0], 2.0, "lower") == ""
    text = limit_breach("ttft_p95", [1.8, 2.1, 1.9, 1.95], 2.0, "lower")  # the mean 1.94 meets it
    assert text.startswith("ttft_p95: the 95 % upper bound over 4 blocks is 2.0")
    assert limit_breach("tokens", [100.0, 101.0, 99.0, 100.0], 90.0, "higher") == ""
    assert "lower bound" in limit_breach("tokens", [91.0, 95.0, 89.0, 92.0], 90.0, "higher")
    assert "fewer than two blocks" in limit_breach("m", [1.0], 2.0, "lower")
    assert "nan" in limit_breach("m", [1.0, math.nan], 2.0, "lower")
