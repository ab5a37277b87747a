"""Every number of one load the slow way: one record after the other, one chunk after the other, as its formula reads.

The numbers that are computed from columns must equal these.
"""

import math
import statistics
from collections import Counter
from itertools import pairwise

from servesmith.measure.records import TOKEN_KINDS, ChunkKind, RequestRecord, Window


def inside(stamp, window) -> bool:
    return stamp is not None and window.start_ns <= stamp < window.end_ns


def first(record: RequestRecord, kinds) -> int | None:
    return next((s for s, k in zip(record.chunk_ns, record.chunk_kinds, strict=True) if k in kinds), None)


def quantile(sample, share):
    """Linear interpolation between order statistics, type 7."""
    ordered = sorted(sample)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def tokens_between(records, start, end):
    return math.fsum(
        tokens
        for record in records
        for stamp, tokens in zip(record.chunk_ns, record.chunk_tokens, strict=True)
        if start <= stamp < end
    )


def seen_by(records, window, kinds):
    return [r for r in records if r.error in ("", "cancelled") and inside(first(r, kinds), window)]


def token_gaps(records, window):
    found = []
    for record in records:
        stamps = [
            stamp
            for stamp, kind in zip(record.chunk_ns, record.chunk_kinds, strict=True)
            if kind in TOKEN_KINDS and inside(stamp, window)
        ]
        found += [later - earlier for earlier, later in pairwise(stamps)]
    return found


def samples(records, window):
    ended = [r for r in records if r.ok and inside(r.end_ns, window)]
    seen = seen_by(records, window, TOKEN_KINDS)
    content, every = {ChunkKind.CONTENT}, set(range(256))
    under_way = [
        r for r in records if r.error != "dropped" and r.sent_ns < window.end_ns and r.end_ns >= window.start_ns
    ]
    return {
        "ttft": [(r.first_token_ns - r.sent_ns) / 1e6 for r in seen],
        "ttft_due": [(r.first_token_ns - r.due_ns) / 1e6 for r in seen],
        "ttft_content": [(first(r, content) - r.sent_ns) / 1e6 for r in seen_by(records, window, content)],
        "first_event": [(r.chunk_ns[0] - r.sent_ns) / 1e6 for r in seen_by(records, window, every)],
        "tpot": [(r.last_token_ns - r.first_token_ns) / (r.output_tokens - 1) / 1e6 for r in ended if spans(r)],
        "itl": [gap / 1e6 for gap in token_gaps(records, window) if gap],
        "e2e": [(r.end_ns - r.sent_ns) / 1e9 for r in ended],
        "e2e_due": [(r.end_ns - r.due_ns) / 1e9 for r in ended],
        "normalised_latency": [(r.end_ns - r.due_ns) / 1e6 / r.output_tokens for r in ended if r.output_tokens > 0],
        "send_late": [
            (r.sent_ns - r.due_ns) / 1e6 for r in records if r.error != "dropped" and inside(r.due_ns, window)
        ],
        "client_lag": [r.client_lag_ns / 1e6 for r in under_way if r.stamp_source == "kernel"],
    }


def spans(record):
    return record.output_tokens > 1 and record.first_token_ns is not None


UNITS = {"e2e": "s", "e2e_due": "s"}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def numbers(records: list[RequestRecord], window: Window) -> dict[str, float]:
    """By key; statistics that the table does not have are here too, and are not compared."""
    values = {}
    for stem, sample in samples(records, window).items():
        if sample:
            unit = UNITS.get(stem, "ms")
            values |= {f"{stem}_{name}_{unit}": quantile(sample, share) for name, share in QUANTILES.items()}
            values[f"{stem}_mean_{unit}"] = statistics.fmean(sample)
    return values | rates(records, window) | shape(records, window) | course(records, window)


def rates(records, window):
    start, end = window.start_ns, window.end_ns
    middle, seconds = (start + end) // 2, (end - start) / 1e9
    ended = [r for r in records if r.ok and inside(r.end_ns, window)]
    tokens = tokens_between(records, start, end)
    prompts = sum(max(r.prompt_tokens, 0) for r in seen_by(records, window, TOKEN_KINDS))
    values = {
        "output_tokens_per_s": tokens / seconds,
        "total_tokens_per_s": (tokens + prompts) / seconds,
        "output_tokens_per_min": tokens / seconds * 60,
        "total_tokens_per_min": (tokens + prompts) / seconds * 60,
        "requests_per_s": len(ended) / seconds,
        "output_tokens_per_s_first_half": tokens_between(records, start, middle) / ((middle - start) / 1e9),
        "output_tokens_per_s_second_half": tokens_between(records, middle, end) / ((end - middle) / 1e9),
    }
    counted = [r for r in ended if r.output_tokens > 0]
    if sum(r.end_ns - r.sent_ns for r in counted):
        flying = sum(max(0, min(r.end_ns, end) - max(r.sent_ns, start)) for r in records) / (end - start)
        mean_tokens = sum(r.output_tokens for r in counted) / len(counted)
        values["little_output_tokens_per_s"] = (
            flying * mean_tokens / (sum(r.end_ns - r.sent_ns for r in counted) / len(counted) / 1e9)
        )
    return values


def shape(records, window):
    values = {}
    ended = [r for r in records if r.ok and inside(r.end_ns, window)]
    seen = seen_by(records, window, TOKEN_KINDS)
    spanned = [r for r in ended if spans(r)]
    if spanned:
        span = sum(r.last_token_ns - r.first_token_ns for r in spanned)
        values["tpot_token_mean_ms"] = span / sum(r.output_tokens - 1 for r in spanned) / 1e6
        middle = quantile(samples(records, window)["tpot"], 0.5)
        if middle:
            values["interactivity_tokens_per_s"] = 1000 / middle
    chunks = sum(
        inside(stamp, window)
        for r in records
        for stamp, kind in zip(r.chunk_ns, r.chunk_kinds, strict=True)
        if kind in TOKEN_KINDS
    )
    if chunks:
        values["tokens_per_chunk"] = tokens_between(records, window.start_ns, window.end_ns) / chunks
    gaps = token_gaps(records, window)
    if gaps:
        values["merged_chunk_fraction"] = gaps.count(0) / len(gaps)
    endings = Counter(r.ok for r in records if r.error not in ("cancelled", "dropped") and inside(r.end_ns, window))
    if endings.total():
        values["error_rate"] = endings[False] / endings.total()
    whole = [r for r in ended if r.first_token_ns is not None]
    if whole:
        values["phase_queue_mean_ms"] = sum(r.sent_ns - r.due_ns for r in whole) / len(whole) / 1e6
        values["phase_prefill_mean_ms"] = sum(r.first_token_ns - r.sent_ns for r in whole) / len(whole) / 1e6
        values["phase_decode_mean_ms"] = sum(r.end_ns - r.first_token_ns for r in whole) / len(whole) / 1e6
    kinds = Counter(next(k for k in r.chunk_kinds if k in TOKEN_KINDS) for r in seen)
    values |= {f"first_token_{ChunkKind(kind).name.lower()}_fraction": n / len(seen) for kind, n in kinds.items()}
    sources = Counter(r.token_source for r in seen)
    values |= {f"tokens_from_{name.replace('-', '_')}_fraction": n / len(seen) for name, n in sources.items()}
    return values | prompts(seen)


def prompts(seen):
    values = {}
    cached = [r for r in seen if r.cached_tokens >= 0 and r.prompt_tokens > 0]
    if cached:
        values["cached_prompt_fraction"] = sum(r.cached_tokens for r in cached) / sum(r.prompt_tokens for r in cached)
    meant = [r for r in seen if r.prompt_tokens >= 0 and r.prompt_tokens_meant > 0]
    if meant:
        values["prompt_token_error"] = sum(abs(r.prompt_tokens - r.prompt_tokens_meant) for r in meant) / len(meant)
    return values


def course(records, window):
    values = {}
    due = [r for r in records if inside(r.due_ns, window)]
    if due:
        values["late_requests"] = sum(r.sent_ns - r.due_ns > 10_000_000 for r in due)
        values["dropped_requests"] = sum(r.error == "dropped" for r in due)
    flown = [r for r in records if r.error != "dropped" and r.sent_ns < window.end_ns and r.end_ns >= window.start_ns]
    if flown:
        values["kernel_stamped_fraction"] = sum(r.stamp_source == "kernel" for r in flown) / len(flown)
    return values


FROM_START = {"ttft_ms": "sent_ns", "ttft_due_ms": "due_ns", "ttft_content_ms": "sent_ns", "e2e_s": "sent_ns",
              "e2e_due_s": "due_ns"}  # fmt: skip


def fate(record: RequestRecord, limits) -> tuple[str, int]:
    """met, lost, open or unknown, and since when."""
    moments = [lost_at(record, name, limit) for name, limit in limits.items()]
    lost = [moment for moment in moments if moment is not None]
    if not record.ok and record.error != "cancelled":
        lost.append(record.end_ns)
    if lost:
        return "lost", min(lost)
    uncounted = record.output_tokens < 0 and any(name not in FROM_START for name in limits)
    return ("open" if not record.ok else "unknown" if uncounted else "met"), record.end_ns


def lost_at(record: RequestRecord, name: str, limit: float) -> int | None:
    if name not in FROM_START:
        return record.end_ns if record.ok and too_slow(record, name, limit) else None
    deadline = getattr(record, FROM_START[name]) + round(limit * (1e6 if name.endswith("_ms") else 1e9))
    cancelled = record.error == "cancelled"
    if name.startswith("e2e"):
        came = None if cancelled else record.end_ns
    else:
        came = first(record, {ChunkKind.CONTENT} if "content" in name else TOKEN_KINDS)
    if came is None:
        return None if cancelled and deadline > record.end_ns else min(deadline, record.end_ns)
    return deadline if came > deadline else None


def too_slow(record: RequestRecord, name: str, limit: float) -> bool:
    if record.output_tokens < 0:
        return False
    if name == "tpot_ms":
        return (
            spans(record) and (record.last_token_ns - record.first_token_ns) / (record.output_tokens - 1) > limit * 1e6
        )
    return record.end_ns - record.due_ns > limit * 1e6 * max(record.output_tokens, 1)
