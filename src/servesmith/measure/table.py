"""The table of metrics: every number that a load can give, with unit, direction, formula and where it comes from.

docs/reference/metrics.md is written from it; docs/measuring.md says what the words mean.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from servesmith.measure.records import ChunkKind


class MetricKind(msgspec.Struct, frozen=True):
    """What a number is: its unit, which way is better, its formula and where the definition comes from."""

    unit: str
    better: Literal["higher", "lower"]
    formula: str
    source: str = "own definition"


class Statistic(msgspec.Struct, frozen=True):
    """What a key is taken of: `ttft_due_p95_ms` is the p95 of the sample `ttft_due`."""

    stem: str
    name: str


QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
_USUAL = ("p50", "p95", "p99")
_EXTREMES = ("p50", "p99", "max")
_VLLM = "as `vllm bench serve`, save that a role chunk is no token"
_INTENDED = "latency from the intended time, as wrk2"
_PHASES = "the three add up to the mean of e2e_due"
_ORCA = "Orca (Yu et al., OSDI 2022) and vLLM (Kwon et al., SOSP 2023): latency / output length"
_AIPERF_TTFO = "AIPerf's time to first output token"
_AIPERF_ICL = "AIPerf's inter-chunk latency, without the gaps of zero inside a read"
_CLOCK = "kernel stamps: SO_TIMESTAMPNS, socket(7)"

STATISTICS: dict[str, Statistic] = {}
"""Metric key to sample and statistic, for keys that are one."""


def _family(stem: str, unit: str, what: str, source: str, names: Sequence[str] = _USUAL) -> dict[str, MetricKind]:
    keys = {f"{stem}_{name}_{unit}": name for name in names}
    STATISTICS.update({key: Statistic(stem, name) for key, name in keys.items()})
    return {key: MetricKind(unit, "lower", f"{name} of: {what}", source) for key, name in keys.items()}


def _throughput() -> dict[str, MetricKind]:
    made = "tokens whose chunk arrived inside the window / window"
    both = "(output tokens inside the window + prompt tokens of first tokens inside it) / window"
    kinds: dict[str, MetricKind] = {}
    for name, formula in (("output", made), ("total", both)):
        kinds[f"{name}_tokens_per_s"] = MetricKind("tokens/s", "higher", formula)
    for name in ("output", "total"):
        key = f"{name}_tokens_per"
        kinds[f"{key}_min"] = MetricKind("tokens/min", "higher", f"60 * {key}_s")
        kinds[f"{key}_s_per_gpu"] = MetricKind("tokens/s", "higher", f"{key}_s / GPUs, where their number is given")
        kinds[f"{key}_min_per_gpu"] = MetricKind("tokens/min", "higher", f"{key}_min / GPUs, where it is given")
    price = "price per hour / 3600 / {} * 1e6, where a price is given"
    for name in ("output", "total"):
        formula = price.format(f"{name}_tokens_per_s")
        kinds[f"cost_per_1m_{name}_tokens"] = MetricKind("per 1M tokens", "lower", formula)
    return kinds


def _shares() -> dict[str, MetricKind]:
    """Shares of requests; those that are zero are left out of the numbers."""
    first = {
        f"first_token_{kind.name.lower()}_fraction": MetricKind(
            "fraction", "higher" if kind is ChunkKind.CONTENT else "lower",
            f"of the requests of TTFT, those whose first token came as {kind.name.lower()}; neither way is better",
        )
        for kind in (ChunkKind.CONTENT, ChunkKind.REASONING, ChunkKind.TOOL)
    }  # fmt: skip
    known = {
        f"tokens_from_{source.replace('-', '_')}_fraction": MetricKind(
            "fraction", "lower" if source == "none" else "higher",
            f"of the requests of TTFT, those whose tokens a chunk were known by: {how}; neither way is better",
        )
        for source, how in (
            ("ids", "token ids in the stream"), ("usage", "a running count in the stream"),
            ("retokenised", "its text counted again, scaled to the final usage"),
            ("one-per-chunk", "as many chunks as tokens in the final usage"), ("none", "nothing"),
        )
    }  # fmt: skip
    return first | known


METRICS: dict[str, MetricKind] = {
    **_throughput(),
    "requests_per_s": MetricKind("1/s", "higher", "requests that ended well inside the window / window"),
    "goodput_requests_per_s": MetricKind(
        "1/s", "higher", "requests that met every limit of goal.request_limits / window",
        "DistServe (Zhong et al., OSDI 2024)",
    ),
    "goodput_fraction": MetricKind(
        "fraction", "higher", "those / all whose fate was known inside the window; failed and dropped ones met none",
        "DistServe; interval: Wilson, JASA 22 (1927) 209",
    ),
    **_family("ttft", "ms", "first token chunk - sent", _VLLM, ("mean", *_USUAL)),
    **_family("ttft_due", "ms", "first token chunk - due", _INTENDED),
    **_family("ttft_content", "ms", "first content chunk - sent", _AIPERF_TTFO, ("mean", *_USUAL)),
    **_family("first_event", "ms", "first event of any kind - sent", "what counts a role chunk calls it TTFT"),
    **_family("tpot", "ms", "(last - first token chunk) / (tokens - 1)", _VLLM, ("mean", *_USUAL)),
    "tpot_token_mean_ms": MetricKind(
        "ms", "lower", "sum of (last - first token chunk) / sum of (tokens - 1): each token weighs the same"
    ),
    "interactivity_tokens_per_s": MetricKind("tokens/s", "higher", "1000 / tpot_p50_ms", "InferenceX: median_intvty"),
    **_family("itl", "ms", "gap between distinct arrivals of token chunks of one request", _AIPERF_ICL),
    "merged_chunk_fraction": MetricKind(
        "fraction", "lower", "token chunks that came in one read with the one before / all but the first of a request"
    ),
    **_family("e2e", "s", "end of the response - sent", _VLLM),
    **_family("e2e_due", "s", "end of the response - due", _INTENDED),
    **_family("normalised_latency", "ms", "(end of the response - due) / output tokens", _ORCA, ("mean", "p50", "p95")),
    "phase_queue_mean_ms": MetricKind("ms", "lower", "mean of sent - due, of requests that ended well", _PHASES),
    "phase_prefill_mean_ms": MetricKind("ms", "lower", "mean of first token chunk - sent, of the same", _PHASES),
    "phase_decode_mean_ms": MetricKind("ms", "lower", "mean of end - first token chunk, of the same", _PHASES),
    "tokens_per_chunk": MetricKind("tokens", "higher", "output tokens / token chunks inside the window"),
    "error_rate": MetricKind(
        "fraction", "lower", "failed / (failed + well ended) of requests that were sent and ended inside it",
        "interval: Wilson, JASA 22 (1927) 209",
    ),
    **_family("send_late", "ms", "sent - due, of requests due inside the window", "own definition", _EXTREMES),
    "late_requests": MetricKind("requests", "lower", "requests due inside the window and sent more than 10 ms later"),
    "dropped_requests": MetricKind(
        "requests", "lower", "requests due inside the window and never sent", "k6's dropped iterations"
    ),
    **_family("client_lag", "ms", "longest time that bytes of a request lay there unread", _CLOCK, _EXTREMES),
    "kernel_stamped_fraction": MetricKind(
        "fraction", "higher", "requests with the kernel's receive stamps / requests under way in the window", _CLOCK
    ),
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
        "tokens", "lower", "mean of the difference between the server's prompt token count and what was meant, unsigned"
    ),
    **_shares(),
    "output_tokens_per_s_first_half": MetricKind("tokens/s", "higher", "as output_tokens_per_s, first half"),
    "output_tokens_per_s_second_half": MetricKind("tokens/s", "higher", "as output_tokens_per_s, second half"),
    "steady_from_s": MetricKind(
        "s", "lower", "seconds after the first request from which on the token rate is steady, where that is found",
        "MSER-5: White, Simulation 69 (1997) 323; White, Cobb and Spratt, WSC 2000",
    ),
    "lock_step": MetricKind(
        "fraction", "lower", "strongest resultant length of request starts over the cycle of a stream; 1: all at once",
        "Rayleigh's test: Mardia and Jupp, Directional Statistics, 2000",
    ),
}  # fmt: skip
