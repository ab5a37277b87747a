"""Records to numbers. Pure: equal records, window and counters give equal metrics.

Which requests a number is made of:
- throughput counts tokens by the stamp of their chunk inside the window, whoever sent them, ended or not;
- TTFT is of requests whose first token fell into the window and that did not fail (one that was cut off by the end
  of the load counts: its first token was seen);
- TPOT, end-to-end and Little's law are of requests that ended well inside the window;
- a chunk gap (ITL) counts if both its chunks fell into the window.
A number that cannot be computed from what there is, is absent; never zero or NaN.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from servesmith.measure import doubts as doubting
from servesmith.measure.counters import Snapshot, difference, span_seconds
from servesmith.measure.records import Metric, RequestRecord, Window
from servesmith.measure.select import ended_well, first_seen, gaps, inside, token_stamps, tokens_between
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND, Nanos

Values = dict[str, float]


class MetricKind(msgspec.Struct, frozen=True):
    """What a number is: its unit, which way is better, its formula and where the definition comes from."""

    unit: str
    better: Literal["higher", "lower"]
    formula: str
    source: str = "own definition"


def _family(stem: str, unit: str, formula: str, source: str, statistics: Sequence[str]) -> dict[str, MetricKind]:
    return {
        f"{stem}_{name}_{unit}": MetricKind(unit, "lower", f"{name} over requests of: {formula}", source)
        for name in statistics
    }


_VLLM = "as `vllm bench serve`, save that a role chunk is no token"
METRICS: dict[str, MetricKind] = {
    "output_tokens_per_s": MetricKind(
        "tokens/s", "higher", "tokens whose chunk arrived inside the window / window"
    ),
    "total_tokens_per_s": MetricKind(
        "tokens/s", "higher", "(output tokens inside the window + prompt tokens of first tokens inside it) / window"
    ),
    "requests_per_s": MetricKind("1/s", "higher", "requests that ended well inside the window / window"),
    **_family("ttft", "ms", "first token chunk - sent", _VLLM, ("mean", "p50", "p95", "p99")),
    **_family("tpot", "ms", "(last - first token chunk) / (tokens - 1)", _VLLM, ("mean", "p50", "p95", "p99")),
    "tpot_token_mean_ms": MetricKind(
        "ms", "lower", "sum of (last - first token chunk) / sum of (tokens - 1): each token weighs the same"
    ),
    **_family("itl", "ms", "gap between token chunks, pooled", "AIPerf's inter-chunk latency", ("p50", "p95", "p99")),
    **_family("e2e", "s", "end of the response - sent", _VLLM, ("p50", "p95", "p99")),
    "tokens_per_chunk": MetricKind("tokens", "higher", "output tokens / token chunks inside the window"),
    "error_rate": MetricKind("fraction", "lower", "failed / (failed + well ended) of requests that ended inside it"),
    "little_output_tokens_per_s": MetricKind(
        "tokens/s", "higher", "mean requests in flight * mean output tokens / mean end-to-end time",
        "Little, Operations Research 9(3), 1961: L = lambda W, in steady state",
    ),
    "counter_output_tokens_per_s": MetricKind(
        "tokens/s", "higher", "growth of the server's output token counter / time between its two readings"
    ),
    "draft_acceptance": MetricKind("fraction", "higher", "accepted / drafted tokens by the server's counters"),
    "cached_prompt_fraction": MetricKind(
        "fraction", "higher", "prompt tokens from the prefix cache / prompt tokens, of first tokens inside the window"
    ),
    "prompt_token_error": MetricKind(
        "tokens", "lower", "mean of |server's prompt token count - what was meant|"
    ),
    "output_tokens_per_s_first_half": MetricKind("tokens/s", "higher", "as output_tokens_per_s, first half"),
    "output_tokens_per_s_second_half": MetricKind("tokens/s", "higher", "as output_tokens_per_s, second half"),
}  # fmt: skip

_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def compute(
    records: Sequence[RequestRecord],
    window: Window,
    counters_before: Snapshot | None = None,
    counters_after: Snapshot | None = None,
    *,
    doubts: Sequence[str] = (),
) -> dict[str, Metric]:
    """Every metric of the table that these records allow, each with its doubts.

    `doubts` are what the load already knew of itself; they stand on every number that depends on time.
    """
    if window.end_ns <= window.start_ns:
        return {}
    counters = (counters_before, counters_after) if counters_before and counters_after else None
    values: Values = {}
    samples = _samples(records, window)
    for stem, unit in (("ttft", "ms"), ("tpot", "ms"), ("itl", "ms"), ("e2e", "s")):
        values |= _statistics(stem, unit, samples[stem])
    values |= _rates(records, window)
    values |= _shape(records, window)
    if counters:
        values |= _from_counters(*counters)
    found = doubting.find(records, window, values, counters)
    found.load.extend(doubts)
    sizes = {stem: len(sample) for stem, sample in samples.items()}
    return {key: _metric(key, values[key], found, sizes) for key in METRICS if key in values}


def _metric(key: str, value: float, found: doubting.Found, sizes: Mapping[str, int]) -> Metric:
    kind = METRICS[key]
    stem, _, rest = key.partition("_")
    few = doubting.too_few(sizes[stem], rest.partition("_")[0]) if stem in sizes else ()
    return Metric(value, kind.unit, kind.better, (*few, *found.of(key)))


def _decode_spans(records: Sequence[RequestRecord]) -> list[tuple[Nanos, int]]:
    """Per request with at least two known tokens: last minus first token chunk, and tokens - 1."""
    return [
        (record.last_token_ns - record.first_token_ns, record.output_tokens - 1)
        for record in records
        if record.output_tokens > 1 and record.first_token_ns is not None and record.last_token_ns is not None
    ]


def _samples(records: Sequence[RequestRecord], window: Window) -> dict[str, list[float]]:
    ended = ended_well(records, window)
    return {
        "ttft": [(token_stamps(r)[0] - r.sent_ns) / NANOS_PER_MS for r in first_seen(records, window)],
        "tpot": [span / tokens / NANOS_PER_MS for span, tokens in _decode_spans(ended)],
        "itl": [gap / NANOS_PER_MS for record in records for gap in gaps(record, window)],
        "e2e": [(record.end_ns - record.sent_ns) / NANOS_PER_SECOND for record in ended],
    }


def _statistics(stem: str, unit: str, sample: Sequence[float]) -> Values:
    """Mean and percentiles (linear interpolation, type 7 of Hyndman and Fan 1996) as far as the table has them."""
    if not sample:
        return {}
    array = np.asarray(sample, dtype=np.float64)
    values = {f"{stem}_{name}_{unit}": float(np.quantile(array, quantile)) for name, quantile in _QUANTILES.items()}
    values[f"{stem}_mean_{unit}"] = float(array.mean())
    return {key: value for key, value in values.items() if key in METRICS}


def _rates(records: Sequence[RequestRecord], window: Window) -> Values:
    start, end, middle = window.start_ns, window.end_ns, (window.start_ns + window.end_ns) // 2
    ended = ended_well(records, window)
    tokens = tokens_between(records, start, end)
    prompt_tokens = sum(max(record.prompt_tokens, 0) for record in first_seen(records, window))
    values: Values = {
        "output_tokens_per_s": tokens / window.seconds,
        "total_tokens_per_s": (tokens + prompt_tokens) / window.seconds,
        "requests_per_s": len(ended) / window.seconds,
        "output_tokens_per_s_first_half": tokens_between(records, start, middle) / Window(start, middle).seconds,
        "output_tokens_per_s_second_half": tokens_between(records, middle, end) / Window(middle, end).seconds,
    }
    counted = [record for record in ended if record.output_tokens > 0]
    if counted:
        in_flight = sum(max(0, min(r.end_ns, end) - max(r.sent_ns, start)) for r in records) / (end - start)
        mean_tokens = sum(record.output_tokens for record in counted) / len(counted)
        mean_seconds = sum(r.end_ns - r.sent_ns for r in counted) / len(counted) / NANOS_PER_SECOND
        values["little_output_tokens_per_s"] = in_flight * mean_tokens / mean_seconds
    return values


def _shape(records: Sequence[RequestRecord], window: Window) -> Values:
    """What else is known of the requests: tokens a chunk, errors, cached and miscounted prompt tokens."""
    values: Values = {}
    spans = _decode_spans(ended_well(records, window))
    if spans:
        values["tpot_token_mean_ms"] = sum(s for s, _ in spans) / sum(n for _, n in spans) / NANOS_PER_MS
    chunks = sum(inside(stamp, window) for record in records for stamp in token_stamps(record))
    if chunks:
        values["tokens_per_chunk"] = tokens_between(records, window.start_ns, window.end_ns) / chunks
    endings = Counter(r.ok for r in records if r.error != "cancelled" and inside(r.end_ns, window))
    if endings.total():
        values["error_rate"] = endings[False] / endings.total()
    return values | _prompt_shape(first_seen(records, window))


def _prompt_shape(requests: Sequence[RequestRecord]) -> Values:
    values: Values = {}
    cached = [r for r in requests if r.cached_tokens >= 0 and r.prompt_tokens > 0]
    if cached:
        values["cached_prompt_fraction"] = sum(r.cached_tokens for r in cached) / sum(r.prompt_tokens for r in cached)
    counted = [r for r in requests if r.prompt_tokens >= 0 and r.prompt_tokens_meant > 0]
    if counted:
        errors = [abs(r.prompt_tokens - r.prompt_tokens_meant) for r in counted]
        values["prompt_token_error"] = sum(errors) / len(errors)
    return values


def _from_counters(before: Snapshot, after: Snapshot) -> Values:
    growth = difference(before, after)
    seconds = span_seconds(before, after)
    values: Values = {}
    if "output_tokens" in growth and seconds > 0:
        values["counter_output_tokens_per_s"] = growth["output_tokens"] / seconds
    if growth.get("draft_tokens") and "accepted_tokens" in growth:
        values["draft_acceptance"] = growth["accepted_tokens"] / growth["draft_tokens"]
    return values


def samples(records: Sequence[RequestRecord], window: Window) -> dict[str, list[float]]:
    """What the percentiles are taken of: `ttft`, `tpot` and `itl` in ms, `e2e` in s. For formats that ask for more of
    a distribution than the table has."""
    return _samples(records, window)
