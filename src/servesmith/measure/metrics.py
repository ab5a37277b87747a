"""Records to numbers. Pure: equal records, window, counters and terms give equal metrics.

Which requests a number is made of:
- throughput counts tokens by the stamp of their chunk inside the window, whoever sent them, ended or not;
- TTFT is of requests whose first token fell into the window and that did not fail (one that was cut off by the end
  of the load counts: its first token was seen);
- TPOT, end-to-end, phases and Little's law are of requests that ended well inside the window;
- a chunk gap (ITL) counts if both its chunks fell into the window;
- lateness and drops are of requests that were due inside it.
A number that cannot be computed from what there is, is absent; never zero or NaN.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from servesmith.measure import doubts as doubting
from servesmith.measure import samples as sampling
from servesmith.measure.counters import Snapshot, difference, span_seconds
from servesmith.measure.frame import Floats, Frame, Mask, frame_of, inside
from servesmith.measure.goodput import goodput
from servesmith.measure.intervals import quantile_interval, wilson
from servesmith.measure.records import ChunkKind, Metric, RequestRecord, Window
from servesmith.measure.samples import POOLED, ended_well, first_seen, samples_of, under_way
from servesmith.measure.select import tokens_between
from servesmith.measure.steady import lock_step, steady_state
from servesmith.measure.table import METRICS, QUANTILES, STATISTICS, MetricKind
from servesmith.measure.terms import Terms
from servesmith.units import NANOS_PER_MS, NANOS_PER_SECOND

__all__ = ["METRICS", "MetricKind", "compute", "samples", "tokens_between"]

Values = dict[str, float]
Interval = tuple[float, float]
_NO_TERMS = Terms()


class _Told(NamedTuple):
    """Numbers by key, and the intervals of those that have one."""

    values: Values
    intervals: dict[str, Interval]


def compute(
    records: Sequence[RequestRecord],
    window: Window,
    counters_before: Snapshot | None = None,
    counters_after: Snapshot | None = None,
    *,
    doubts: Sequence[str] = (),
    terms: Terms = _NO_TERMS,
) -> dict[str, Metric]:
    """Every number that these records allow, in the order of METRICS, each with its doubts.

    `doubts` are those the load itself had; they concern every number that depends on time. An empty window gives {}.
    """
    if window.seconds <= 0:
        return {}
    frame = frame_of(records)
    counters = (counters_before, counters_after) if counters_before and counters_after else None
    samples = samples_of(frame, window)
    values, intervals = _statistics(samples)
    for told in (_rates(frame, window), _shape(frame, window), _course(frame, window), _goodput(frame, window, terms)):
        values |= told.values
        intervals |= told.intervals
    if counters:
        values |= _from_counters(*counters)
    values |= _derived(values, terms)
    found = doubting.find(frame, window, values, counters)
    found.load.extend(doubts)
    sizes = {stem: len(sample) for stem, sample in samples.items()}
    return {key: _metric(key, _Told(values, intervals), found, sizes) for key in METRICS if key in values}


def samples(records: Sequence[RequestRecord], window: Window) -> dict[str, list[float]]:
    """What the percentiles are taken of: `ttft`, `tpot` and `itl` in ms, `e2e` in s, and further ones of the table.
    For formats that ask for more of a distribution than the table has."""
    return {stem: sample.tolist() for stem, sample in samples_of(frame_of(records), window).items()}


def _metric(key: str, told: _Told, found: doubting.Found, sizes: Mapping[str, int]) -> Metric:
    kind, statistic = METRICS[key], STATISTICS.get(key)
    few = doubting.too_few(sizes[statistic.stem], statistic.name) if statistic else ()
    return Metric(told.values[key], kind.unit, kind.better, (*few, *found.of(key)), told.intervals.get(key))


def _statistics(samples: Mapping[str, Floats]) -> _Told:
    """Means, and percentiles with their intervals, as far as the table has them."""
    told = _Told({}, {})
    wanted: dict[str, list[tuple[str, str]]] = {}
    for key, statistic in STATISTICS.items():
        wanted.setdefault(statistic.stem, []).append((key, statistic.name))
    for stem, keys in wanted.items():
        sample = samples[stem]
        if not len(sample):
            continue
        ordered = np.sort(sample) if stem not in POOLED else sample
        found = {"mean": float(sample.mean()), **sampling.percentiles(ordered, QUANTILES)}
        told.values.update({key: found[name] for key, name in keys})
        for key, name in keys if stem not in POOLED else ():
            interval = quantile_interval(ordered, QUANTILES[name]) if name in QUANTILES else None
            if interval:
                told.intervals[key] = interval
    return told


def _rates(frame: Frame, window: Window) -> _Told:
    start, end, middle = window.start_ns, window.end_ns, (window.start_ns + window.end_ns) // 2
    ended = ended_well(frame, window)
    tokens = frame.tokens_between(start, end)
    prompt_tokens = int(np.maximum(frame.ints["prompt_tokens"][first_seen(frame, window)], 0).sum())
    values: Values = {
        "output_tokens_per_s": tokens / window.seconds,
        "total_tokens_per_s": (tokens + prompt_tokens) / window.seconds,
        "requests_per_s": int(ended.sum()) / window.seconds,
        "output_tokens_per_s_first_half": frame.tokens_between(start, middle) / Window(start, middle).seconds,
        "output_tokens_per_s_second_half": frame.tokens_between(middle, end) / Window(middle, end).seconds,
    }
    counted = ended & (frame.output_tokens > 0)
    if number := int(counted.sum()):
        flown = np.minimum(frame.end_ns, end) - np.maximum(frame.sent_ns, start)
        in_flight = int(np.maximum(flown, 0).sum()) / (end - start)
        mean_tokens = int(frame.output_tokens[counted].sum()) / number
        mean_seconds = int((frame.end_ns - frame.sent_ns)[counted].sum()) / number / NANOS_PER_SECOND
        if mean_seconds > 0:
            values["little_output_tokens_per_s"] = in_flight * mean_tokens / mean_seconds
    return _Told(values, {})


def _shape(frame: Frame, window: Window) -> _Told:
    """What else is known of requests and chunks: tokens a chunk, merged reads, errors, phases, shares, prompts."""
    told = _Told({}, {})
    values = told.values
    ended = ended_well(frame, window)
    if (spanned := sampling.has_span(frame) & ended).any():
        span, tokens = int(sampling.decode_span(frame)[spanned].sum()), int((frame.output_tokens[spanned] - 1).sum())
        values["tpot_token_mean_ms"] = span / tokens / NANOS_PER_MS
    if chunks := int((frame.is_token & inside(frame.chunk_ns, window)).sum()):
        values["tokens_per_chunk"] = frame.tokens_between(window.start_ns, window.end_ns) / chunks
    distinct, merged = sampling.gaps(frame, window)
    if between := len(distinct) + merged:
        values["merged_chunk_fraction"] = merged / between
    sent_and_ended = ~frame.cancelled & ~frame.dropped & inside(frame.end_ns, window)
    if endings := int(sent_and_ended.sum()):
        failed = endings - int(ended.sum())
        values["error_rate"] = failed / endings
        told.intervals["error_rate"] = wilson(failed, endings)
    seen = first_seen(frame, window)
    values.update(_phases(frame, ended))
    values.update(_shares(frame, seen))
    values.update(_prompt_shape(frame, seen))
    return told


def _phases(frame: Frame, ended: Mask) -> Values:
    which = ended & frame.first_token.there
    if not which.any():
        return {}
    edges = (frame.due_ns, frame.sent_ns, frame.first_token.at_ns, frame.end_ns)
    names = ("queue", "prefill", "decode")
    return {
        f"phase_{name}_mean_ms": float((after - before)[which].mean() / NANOS_PER_MS)
        for name, before, after in zip(names, edges, edges[1:], strict=False)
    }


def _shares(frame: Frame, seen: Mask) -> Values:
    """Which kind of chunk set TTFT, and how tokens were known; a share of zero is left out."""
    if not (number := int(seen.sum())):
        return {}
    kinds = np.bincount(frame.first_token.kind[seen], minlength=len(ChunkKind))
    values = {
        f"first_token_{kind.name.lower()}_fraction": int(kinds[kind]) / number for kind in ChunkKind if kinds[kind]
    }
    sources = frame.counted("token_source", seen)
    return values | {
        f"tokens_from_{source.replace('-', '_')}_fraction": count / number for source, count in sources.items()
    }


def _prompt_shape(frame: Frame, seen: Mask) -> Values:
    values: Values = {}
    prompt, cached, meant = (frame.ints[name] for name in ("prompt_tokens", "cached_tokens", "prompt_tokens_meant"))
    told = seen & (cached >= 0) & (prompt > 0)
    if told.any():
        values["cached_prompt_fraction"] = int(cached[told].sum()) / int(prompt[told].sum())
    counted = seen & (prompt >= 0) & (meant > 0)
    if counted.any():
        values["prompt_token_error"] = int(np.abs(prompt - meant)[counted].sum()) / int(counted.sum())
    return values


def _course(frame: Frame, window: Window) -> _Told:
    """How the load went: late and dropped requests, stamps, steady state, lock-step."""
    values: Values = {}
    due = sampling.due_inside(frame, window)
    if due.any():
        values["late_requests"] = float((due & (frame.sent_ns - frame.due_ns > sampling.LATE_NS)).sum())
        values["dropped_requests"] = float((due & frame.dropped).sum())
    flown = under_way(frame, window)
    if flown.any():
        values["kernel_stamped_fraction"] = int((flown & frame.having("stamp_source", "kernel")).sum()) / int(
            flown.sum()
        )
    steady, step = steady_state(frame, window), lock_step(frame, window)
    if steady and steady.found:
        values["steady_from_s"] = steady.after_s
    if step:
        values["lock_step"] = step.resultant
    return _Told(values, {})


def _goodput(frame: Frame, window: Window, terms: Terms) -> _Told:
    found = goodput(frame, window, terms.request_limits)
    if found is None:
        return _Told({}, {})
    values = {"goodput_requests_per_s": found.requests_per_s, "goodput_fraction": found.share}
    return _Told(values, {"goodput_fraction": (found.low, found.high)})


def _from_counters(before: Snapshot, after: Snapshot) -> Values:
    growth = difference(before, after)
    seconds = span_seconds(before, after)
    values: Values = {}
    if "output_tokens" in growth and seconds > 0:
        values["counter_output_tokens_per_s"] = growth["output_tokens"] / seconds
    if growth.get("draft_tokens") and "accepted_tokens" in growth:
        values["draft_acceptance"] = growth["accepted_tokens"] / growth["draft_tokens"]
    return values


def _derived(values: Values, terms: Terms) -> Values:
    """The same numbers in the units that people use: a minute, a GPU, a price, a user."""
    made: Values = {}
    for name in ("output", "total"):
        rate = values[f"{name}_tokens_per_s"]
        made[f"{name}_tokens_per_min"] = rate * 60
        if terms.gpus > 0:
            made[f"{name}_tokens_per_s_per_gpu"] = rate / terms.gpus
            made[f"{name}_tokens_per_min_per_gpu"] = rate * 60 / terms.gpus
        if terms.price_per_hour > 0 and rate > 0:
            made[f"cost_per_1m_{name}_tokens"] = terms.price_per_hour / 3600 / rate * 1e6
    if tpot := values.get("tpot_p50_ms"):
        made["interactivity_tokens_per_s"] = 1000 / tpot
    return made
