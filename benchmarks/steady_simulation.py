"""How often the signs of an unsteady load and of lock-step are false, and what they find (fixed seeds, about 20 s).

Run by hand: python benchmarks/steady_simulation.py. The figures of docs/measuring.md come from here.
"""

from collections.abc import Callable

import numpy as np

from servesmith.measure.doubts import BY_CHANCE, DISAGREEMENT, IN_STEP, UNSTEADY
from servesmith.measure.steady import BATCHES, mser, rayleigh_p

RNG = np.random.default_rng(1)
WINDOW = 13
"""Batches of warm-up of 50, as 3 s of 11 s."""
RUNS = 4000


def noise(cv: float, correlation: float = 0.0) -> np.ndarray:
    """A steady rate of 100 with so much noise from batch to batch, each of which remembers the one before."""
    value, values = 0.0, []
    for shock in RNG.standard_normal(BATCHES + 50):
        value = correlation * value + shock * (1 - correlation**2) ** 0.5
        values.append(value)
    return 100 * (1 + cv * np.array(values[50:]))


def ramp(batches: int) -> np.ndarray:
    values = noise(0.03)
    values[:batches] *= np.linspace(0.2, 1, batches)
    return values


def drift() -> np.ndarray:
    return np.linspace(1, 0.8, BATCHES) * noise(0.03)


def waves(period: float) -> np.ndarray:
    return noise(0.03) * (1 + 0.5 * np.sin(2 * np.pi * (np.arange(BATCHES) / period + RNG.random())))


def steady(name: str, make: Callable[[], np.ndarray]) -> None:
    lost = late = halves = 0
    for _ in range(RUNS):
        values = make()
        cut = mser(values)
        rest = values[BATCHES // 2 if cut is None else cut :]
        rate, error = rest.mean(), rest.std(ddof=1) / len(rest) ** 0.5 / rest.mean()
        seen = values[WINDOW:].mean()
        lost += cut is None
        apart = abs(rate - seen) / max(rate, seen)
        late += (cut is None or cut > WINDOW) and apart > DISAGREEMENT + 2 * error
        first, second = (half.mean() for half in np.array_split(values[WINDOW:], 2))
        halves += abs(first - second) / max(first, second) > UNSTEADY
    print(
        f"{name:<44} no steady state {lost / RUNS:6.1%}   doubted by it {late / RUNS:6.1%}   by the halves of the "
        f"window {halves / RUNS:6.1%}"
    )


def lock_step(streams: int) -> None:
    waves = np.arange(1, max(1, min(4, streams // 4)) + 1)
    hits = 0
    for _ in range(RUNS):
        angles = RNG.uniform(0, 2 * np.pi, streams)
        lengths = [float(np.hypot(np.cos(m * angles).mean(), np.sin(m * angles).mean())) for m in waves]
        p = min(1.0, rayleigh_p(max(lengths), streams) * len(lengths))
        hits += max(lengths) >= IN_STEP and p < BY_CHANCE
    print(f"{streams} streams that start at random times: doubted {hits / RUNS:.2%}")


def main() -> None:
    for cv in (0.01, 0.05, 0.1, 0.2):
        steady(f"steady, noise {cv:.0%} a batch", lambda cv=cv: noise(cv))
    for cv, correlation in ((0.03, 0.5), (0.1, 0.5), (0.03, 0.8), (0.1, 0.8)):
        steady(f"steady, noise {cv:.0%}, correlation {correlation}", lambda c=cv, r=correlation: noise(c, r))
    for batches in (5, 12, 20, 30):
        steady(f"rises for {batches} of 50 batches, window from {WINDOW}", lambda n=batches: ramp(n))
    steady("falls by 20 % from start to end", drift)
    for period in (2.5, 5, 10, 25):
        steady(f"waves of {period} batches", lambda p=period: waves(p))
    for streams in (4, 8, 16, 48):
        lock_step(streams)


if __name__ == "__main__":
    main()
