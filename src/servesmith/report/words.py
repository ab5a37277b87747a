"""Numbers and keys as people read them. Formatting happens here and nowhere deeper."""

import math
import re
from typing import Literal

from servesmith.stats.verdict import Estimate
from servesmith.store.replay import START_TIME

_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")
_NAMES = {
    "output_tokens_per_s": "output tokens per second",
    "requests_per_s": "requests per second",
    "goodput_requests_per_s": "goodput, requests per second",
    "goodput_fraction": "share of requests within their limits",
    "cost_per_1m_output_tokens": "cost of a million output tokens",
    "ttft_p50_ms": "time to first token (p50)",
    "ttft_p95_ms": "time to first token (p95)",
    "ttft_p99_ms": "time to first token (p99)",
    "tpot_mean_ms": "time per output token (mean)",
    "tpot_p95_ms": "time per output token (p95)",
    "itl_p95_ms": "inter-token latency (p95)",
    "e2e_p50_s": "end-to-end latency (p50)",
    "e2e_p95_s": "end-to-end latency (p95)",
    "error_rate": "error rate",
    "memory_peak_mib": "peak memory",
    START_TIME: "start time",
    "time_to_health_s": "time to health",
    "time_to_first_token_s": "time to first token from exec",
    "prefill_tokens_per_s": "prompt tokens per second",
    "prefill_ttft_p50_ms": "time to first token (p50)",
    "prefill_ttft_p95_ms": "time to first token (p95)",
    "prefill_prompts_per_s": "prompts per second",
    "prefill_cached_fraction": "share of cached prompt tokens",
}
"""The metrics that a first table shows, in its order. The rest stands under its own key."""


def is_main(key: str) -> bool:
    """True for the metrics of the first table."""
    return key in _NAMES


def metric_name(key: str) -> str:
    """The metric's name for a reader; a key that is not known stands for itself."""
    return _NAMES.get(key, key)


def metric_rank(key: str) -> tuple[int, str]:
    """Sort key: the order of the names above, then the unknown ones by name."""
    order = list(_NAMES)
    return (order.index(key) if key in _NAMES else len(order), key)


def amount(value: float | None, unit: str = "") -> str:
    """Four significant digits, thousands grouped, no exponent: `163.7 tokens/s`."""
    if value is None or not math.isfinite(value):
        return "not known"
    if unit == "fraction":
        return f"{amount(100 * value)} %"
    digits = 3 if value == 0 else min(6, max(0, 3 - math.floor(math.log10(abs(value)))))
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {'/s' if unit == '1/s' else unit}".strip()


def percent(ratio: float, digits: int = 1) -> str:
    """A ratio as a signed change: 1.243 is `+24.3 %`."""
    change = round((ratio - 1) * 100, digits)
    return f"{change + 0.0:+.{digits}f} %"


def factor(ratio: float) -> str:
    """A ratio as it is said: 2.67 is `2.67x`. Above 1 is better, whichever way the metric runs."""
    return f"{ratio:.2f}x"


def log_percent(log_ratio: float) -> str:
    """A log ratio as a signed change."""
    return percent(math.exp(log_ratio))


def interval(estimate: Estimate | None) -> str:
    """`+24.3 % (+18.0 % to +31.2 %)`, or a dash where there is no estimate."""
    if estimate is None:
        return "-"
    if not math.isfinite(estimate.low) or not math.isfinite(estimate.high):
        return f"{percent(estimate.ratio)} (no interval)"
    return f"{percent(estimate.ratio)} ({percent(estimate.low)} to {percent(estimate.high)})"


def span(seconds: float) -> str:
    """`42 s`, `7 min 05 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def gain(estimate: Estimate, better: Literal["higher", "lower"]) -> tuple[str, str]:
    """A gain as a sentence has it, size and interval: `24.3 % more` and `18.0 % to 31.2 %`; for latencies `less`.

    The estimate is signed so that above 1 is better; of a latency, 1.25 means 1 - 1 / 1.25 = 20 % less. An interval
    that reaches to the other side of zero keeps its signs.
    """
    size, one, other = (_change(value, better) for value in (estimate.ratio, estimate.low, estimate.high))
    low, high = sorted((one, other))
    if size < 0:
        low, high = -high, -low
    word = "more" if size >= 0 else "less"
    return f"{abs(size):.1f} % {word}", f"{low + 0.0:.1f} % to {high + 0.0:.1f} %"


def _change(ratio: float, better: Literal["higher", "lower"]) -> float:
    """Per cent by which the metric itself changed, for a ratio that is signed so that above 1 is better."""
    return (ratio - 1) * 100 if better == "higher" else (1 / ratio - 1) * 100


def moment(at: str) -> str:
    """An ISO 8601 stamp without its seconds: `2026-12-01 12:00 +01:00`; what is no stamp stands as it is."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*(Z|[+-]\d\d:?\d\d)?", at)
    return " ".join(part for part in found.groups() if part) if found else at


def true_minus(text: str) -> str:
    """Set the minus sign of a number as one (U+2212); hyphens inside names and flags stay."""
    return _MINUS.sub("\u2212", text)


def count(number: int, noun: str) -> str:
    """`1 block`, `6 blocks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
