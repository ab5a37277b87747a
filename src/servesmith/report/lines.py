"""An event as one line for a person who looks on. Pure."""

from servesmith.report.words import amount, count, interval, metric_name, percent
from servesmith.stats.verdict import Verdict
from servesmith.store.events import (
    Decided,
    Discarded,
    Event,
    Found,
    Gated,
    Kept,
    KneeFound,
    NoiseMeasured,
    Noted,
    Proposed,
    Resumed,
    RunClosed,
    Screened,
    Soaked,
    TrialEnded,
    TrialResult,
)  # fmt: skip
from servesmith.store.knee import answer_in_words

SHOWN = (
    "output_tokens_per_s", "ttft_p95_ms", "tpot_mean_ms", "time_to_health_s", "time_to_first_token_s",
    "prefill_tokens_per_s",
)  # fmt: skip
"""What a trial's line shows of its numbers."""


def event_line(event: Event) -> str:
    """What happened, in one line; empty for events that only open or start something."""
    match event:
        case TrialEnded():
            return trial_line(event.result)
        case NoiseMeasured():
            return f"A against A: {interval(event.verdict.effect)}{_sight(event)}"
        case Found():
            return f"found: {event.finding}"
        case Proposed():
            refused = f"; refused: {', '.join(event.refused)}" if event.refused else ""
            return f"to try: {', '.join(event.levers) or 'nothing'}{refused}"
        case Screened():
            return f"screened; goes into blocks: {', '.join(event.kept) or 'nothing'}"
        case Decided():
            return f"{event.stage} {event.subject}: {verdict_line(event.verdict)}"
        case Gated():
            return f"gate of {event.subject} {'passed' if event.passed else 'not passed'}: {event.because}"
        case _:
            return _decision_line(event)


def trial_line(result: TrialResult) -> str:
    """A trial's key, how it ended, its main numbers or its reason, and what it took."""
    if result.ending != "ok":
        reason = ": ".join(part for part in (result.failure, result.log_line.strip()) if part)
        return f"{result.key} {result.ending} ({reason}), {result.seconds:.0f} s"
    found = [(key, result.metrics[key]) for key in SHOWN if key in result.metrics]
    numbers = ", ".join(f"{_brief(key)} {amount(metric.value, metric.unit)}".strip() for key, metric in found)
    return f"{result.key} ok{f': {numbers}' if numbers else ''}, {result.seconds:.0f} s"


def verdict_line(verdict: Verdict) -> str:
    """`better, +24.1 % (+18.2 % to +30.4 %), 6 blocks`."""
    return f"{verdict.says}, {interval(verdict.effect)}, {count(verdict.blocks, 'block')}"


def _sight(noise: NoiseMeasured) -> str:
    """The smallest gain that can be shown, with the fewest and with the most blocks."""
    counts = sorted(noise.detectable, key=int)
    if not counts:
        return ""
    few, many = (percent(1 + noise.detectable[blocks]).lstrip("+") for blocks in (counts[0], counts[-1]))
    return f"; shows gains from {few} on in {counts[0]} blocks, from {many} on in {counts[-1]}"


def _decision_line(event: Event) -> str:
    match event:
        case Kept():
            return f"keep {event.lever}{' (undecided)' if event.undecided else ''}: {event.because}"
        case Discarded():
            return f"discard {event.lever} ({event.stage}): {event.because}"
        case KneeFound() | Soaked():
            return _measured_line(event)
        case Noted():
            return f"note: {event.note}"
        case Resumed():
            return f"resumed at {event.at}"
        case RunClosed():
            return f"{event.ending}: {event.because}"
        case _:
            return ""


def _measured_line(event: KneeFound | Soaked) -> str:
    if isinstance(event, KneeFound):
        return answer_in_words(event)
    return f"soak: {event.verdict.says}: {event.verdict.because}"


def _brief(key: str) -> str:
    return {"output_tokens_per_s": "", "ttft_p95_ms": "TTFT p95", "tpot_mean_ms": "TPOT"}.get(key, metric_name(key))
