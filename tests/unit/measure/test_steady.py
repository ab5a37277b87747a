import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import MS, record, steady, window

from servesmith.measure.frame import frame_of
from servesmith.measure.steady import BATCH, lock_step, mser, rayleigh_p, steady_state


def slow_mser(values):
    """The definition: least sum of squares about the mean of the rest, over the square of its length."""
    errors = [
        sum((value - sum(rest) / len(rest)) ** 2 for value in rest) / len(rest) ** 2
        for rest in (values[cut:] for cut in range(len(values) - BATCH + 1))
    ]
    cut = errors.index(min(errors))
    return cut if cut <= len(values) // 2 else None


@given(st.lists(st.integers(0, 1000), min_size=2 * BATCH, max_size=40))
def test_mser_is_its_definition(values):
    array = np.array(values, dtype=np.float64)
    spread = [((array[cut:] - array[cut:].mean()) ** 2).sum() / (len(array) - cut) ** 2 for cut in range(len(array))]
    cut = mser(array)
    if min(spread[: len(array) - BATCH + 1]) > 1e-2 and sorted(spread)[1] - min(spread) > 1e-9 * max(spread):
        assert cut == slow_mser(values)


def test_a_ramp_is_cut_off_and_an_even_series_is_not():
    even = np.full(50, 320.1)
    assert mser(even) == 0
    assert mser(np.concatenate((np.linspace(10, 300, 12), np.full(38, 320.1)))) == 12
    assert mser(np.linspace(1, 50, 50)) is None
    assert mser(np.array([1.0, 2.0])) is None


def test_mser_finds_noise_steady_nearly_always():
    rng = np.random.default_rng(5)
    cuts = [mser(100 + 5 * rng.standard_normal(50)) for _ in range(400)]
    assert sum(cut is None for cut in cuts) < 0.1 * len(cuts)


def test_when_a_load_was_steady():
    """20 streams that start one after the other within 2 s, then all run: the rate rises for 2 s."""
    records = [r for r in steady(streams=20, cycles=60) if r.sent_ns >= r.stream * 100 * MS]
    found = steady_state(frame_of(records), window(3000, 10_000))
    assert found.found and 1.4 <= found.after_s <= 2.6
    assert found.rate == pytest.approx(20 * 16 / 0.2, rel=0.02)
    assert steady_state(frame_of(records), window(300, 1900)).found is False


def test_without_tokens_nothing_is_said():
    assert steady_state(frame_of([]), window(0, 100)) is None
    assert steady_state(frame_of([record(0, 10, 1, 3)]), window(0, 100)) is None
    assert lock_step(frame_of([]), window(0, 100)) is None
    assert lock_step(frame_of([record(0, 10, 1, 3)]), window(0, 100)) is None


def together(streams: int, waves: int = 1, spread: float = 0.0):
    """Streams in so many waves a cycle of 300 ms, those of a wave scattered over `spread` of the cycle."""
    return [
        record(sent, sent + 50, 10, 16, stream=stream)
        for stream in range(streams)
        for n in range(20)
        for sent in [n * 300 + stream % waves * 300 / waves + 300 * spread * (stream // waves) / (streams // waves)]
    ]


@pytest.mark.parametrize(("streams", "waves"), [(3, 1), (8, 1), (64, 1), (8, 2), (16, 4), (64, 3)])
def test_waves_are_seen(streams, waves):
    found = lock_step(frame_of(together(streams, waves, 0.02)), window(1000, 5000))
    assert found.waves == waves and found.resultant > 0.9 and found.starts == streams
    assert found.p < (0.05 if streams == 3 else 0.01)


@pytest.mark.parametrize("streams", [2, 4, 8, 16, 64])
def test_evenly_spread_starts_are_no_lock_step(streams):
    found = lock_step(frame_of(together(streams, 1, 1.0)), window(1000, 5000))
    assert found.resultant < 0.1 and found.p > 0.5


def test_two_streams_are_too_few_to_tell():
    found = lock_step(frame_of(together(2)), window(1000, 5000))
    assert found.resultant == pytest.approx(1) and found.p > 0.05


def test_an_open_loop_has_no_cycle():
    assert lock_step(frame_of([record(n * 100, n * 100 + 50, 10, 5) for n in range(50)]), window(0, 5000)) is None


def test_rayleighs_p_is_that_of_random_directions():
    rng = np.random.default_rng(3)
    angles = rng.uniform(0, 2 * math.pi, (20_000, 8))
    lengths = np.hypot(np.cos(angles).mean(axis=1), np.sin(angles).mean(axis=1))
    for share in (0.1, 0.05, 0.01):
        assert rayleigh_p(float(np.quantile(lengths, 1 - share)), 8) == pytest.approx(share, rel=0.15)
