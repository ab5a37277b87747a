"""Numbers of a prefill probe: prompts of one length, answers of one token. Pure."""

from collections.abc import Sequence

import numpy as np

from servesmith.measure.metrics import MetricKind
from servesmith.measure.records import Metric, RequestRecord, Window
from servesmith.units import NANOS_PER_MS

PREFILL_METRICS: dict[str, MetricKind] = {
    "prefill_tokens_per_s": MetricKind(
        "tokens/s", "higher",
        "prompt tokens by the server's count, without cached ones / (last first token - first request sent)",
        "as the probes of serving recipes: HTTP, tokenizing and scheduling are in it",
    ),
    "prefill_ttft_p50_ms": MetricKind("ms", "lower", "p50 of first token chunk - sent"),
    "prefill_ttft_p95_ms": MetricKind("ms", "lower", "p95 of first token chunk - sent"),
    "prefill_prompts_per_s": MetricKind("1/s", "higher", "prompts / (last first token - first request sent)"),
    "prefill_cached_fraction": MetricKind("fraction", "higher", "cached prompt tokens / prompt tokens"),
}  # fmt: skip
CACHED = 0.02
"""Share of cached prompt tokens from which on it is a doubt; less is the chat template's."""


def prefill_window(records: Sequence[RequestRecord]) -> Window:
    """From the first request sent to just behind the last first token."""
    firsts = [record.first_token_ns for record in records if record.ok and record.first_token_ns is not None]
    start = min((record.sent_ns for record in records), default=0)
    return Window(start, max(firsts, default=start) + 1)


def prefill_numbers(records: Sequence[RequestRecord], doubts: Sequence[str] = ()) -> dict[str, Metric]:
    """What the requests that went well give; nothing without one. A prompt whose tokens the server did not count is
    taken at the length that was meant, and that is a doubt."""
    good = [record for record in records if record.ok and record.first_token_ns is not None]
    if not good:
        return {}
    window = prefill_window(good)
    seconds = (window.end_ns - 1 - window.start_ns) / 1e9
    prompts = sum(r.prompt_tokens if r.prompt_tokens >= 0 else r.prompt_tokens_meant for r in good)
    cached = sum(max(r.cached_tokens, 0) for r in good)
    waits = np.asarray([(r.first_token_ns or 0) - r.sent_ns for r in good], dtype=np.float64) / NANOS_PER_MS
    values = {
        "prefill_tokens_per_s": (prompts - cached) / seconds,
        "prefill_ttft_p50_ms": float(np.quantile(waits, 0.5)),
        "prefill_ttft_p95_ms": float(np.quantile(waits, 0.95)),
        "prefill_prompts_per_s": len(good) / seconds,
    }
    if any(record.cached_tokens >= 0 for record in good) and prompts:
        values["prefill_cached_fraction"] = cached / prompts
    found = (*doubts, *_doubts(records, good, cached / max(prompts, 1)))
    return {
        key: Metric(value, PREFILL_METRICS[key].unit, PREFILL_METRICS[key].better, found)
        for key, value in values.items()
    }


def _doubts(records: Sequence[RequestRecord], good: Sequence[RequestRecord], cached: float) -> list[str]:
    doubts: list[str] = []
    if len(good) < len(records):
        doubts.append(
            f"{len(records) - len(good)} of {len(records)} prompts failed and are left out: remove their cause"
        )
    if any(record.prompt_tokens < 0 for record in good):
        doubts.append("the server does not count prompt tokens; the lengths that were meant stand in for them")
    if any(record.cached_tokens < 0 for record in good):
        doubts.append("the server does not say what came from its prefix cache; each prompt begins uniquely")
    elif cached > CACHED:
        doubts.append(f"{cached:.0%} of the prompt tokens came from the prefix cache and are not counted")
    return doubts
