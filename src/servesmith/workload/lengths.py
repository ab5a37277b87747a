"""Lengths in tokens, drawn from a seed. Pure, but for reading a trace.

Value number i follows from the seed and i alone: more or fewer requests leave the first ones as they are.
"""

import math
import random
from pathlib import Path
from statistics import NormalDist, fmean

from servesmith.recipe.model import Lengths, Workload
from servesmith.workload import inferencex
from servesmith.workload.traces import TraceRow, read_trace

_UNIT = NormalDist()


def draw(lengths: Lengths, side: str, seed: int, count: int) -> list[int]:
    """`count` lengths, each at least 1. `side` is `prompt` or `output`: the two are drawn independently, except that
    from one trace they are those of the same row. Raises InputError if the trace cannot be read."""
    if lengths.kind == "fixed":
        return [lengths.tokens] * count
    if lengths.kind == "trace":
        rows = _rows(lengths)
        rng = random.Random(f"{seed}/rows")
        return [_of(rows[int(rng.random() * len(rows))], side) for _ in range(count)]
    rng = random.Random(f"{seed}/lengths/{side}")
    low = max(1, lengths.low)
    if lengths.kind == "uniform":
        return [low + int(rng.random() * (lengths.high - low + 1)) for _ in range(count)]
    return [_lognormal(lengths, low, rng.random()) for _ in range(count)]


def _rows(lengths: Lengths) -> tuple[TraceRow, ...]:
    return read_trace(Path(lengths.trace), lengths.trace_format).rows


def _of(row: TraceRow, side: str) -> int:
    return row.prompt_tokens if side == "prompt" else row.output_tokens


def _lognormal(lengths: Lengths, low: int, u: float) -> int:
    """By the inverse distribution function between its values at the bounds, so that no draw is thrown away."""
    if not lengths.stdev:
        return max(low, round(lengths.mean))
    mu, sigma = _logarithm(lengths)
    least = _UNIT.cdf((math.log(low - 0.5) - mu) / sigma)
    most = _UNIT.cdf((math.log(lengths.high + 0.5) - mu) / sigma) if lengths.high else 1.0
    p = min(max(least + u * (most - least), 1e-12), 1 - 1e-12)
    value = round(math.exp(mu + sigma * _UNIT.inv_cdf(p)))
    return min(max(value, low), lengths.high or value)


def _logarithm(lengths: Lengths) -> tuple[float, float]:
    """Mean and deviation of the logarithm, from those of the value itself
    (https://en.wikipedia.org/wiki/Log-normal_distribution#Arithmetic_moments)."""
    variance = math.log1p((lengths.stdev / lengths.mean) ** 2)
    return math.log(lengths.mean) - variance / 2, math.sqrt(variance)


def mean_output_tokens(workload: Workload) -> float:
    """Output tokens of a request on average, before any is drawn; for a lognormal without its cut."""
    if workload.inferencex:
        return fmean(inferencex.lengths(workload.inferencex)[1])
    lengths = workload.output_lengths
    if lengths is None:
        return workload.output_tokens
    if lengths.kind == "uniform":
        return (max(1, lengths.low) + lengths.high) / 2
    if lengths.kind == "trace":
        return fmean(row.output_tokens for row in _rows(lengths))
    return lengths.mean if lengths.kind == "lognormal" else lengths.tokens
