"""The one result of a run, in one sentence that needs no knowledge of serving."""

from collections.abc import Sequence

from servesmith.report.nouns import Comparison, Headline, LeverRow
from servesmith.report.words import amount, count, gain, metric_name, percent, span
from servesmith.stats.rules import MINIMUM_BLOCKS
from servesmith.stats.sample import median
from servesmith.store.events import Decided, Gated, NoiseMeasured, RunClosed, TrialResult
from servesmith.store.replay import Replay, reading

COMPARING = ("tune", "demo", "compare", "ablate")
"""Verbs whose result comes from blocks."""
_OF_THE_CLIENT = ("requests-failed", "client-too-slow", "hang", "too-few-prompts", "interrupted")
"""Failures that were seen by us and not told by a log."""


ALONE = ("knee", "prefill", "start", "soak")
"""Verbs that measure one thing about one recipe; their last event says what came of it."""


def headline(
    run: Replay, comparison: Comparison | None, gate: Gated | None, levers: Sequence[LeverRow] = ()
) -> Headline:
    """What the run found. `comparison` is the one that decides, `gate` the one of its B side, `levers` the fates."""
    decides = run.opened.verb in (*COMPARING, "gate")
    if run.closed is not None and run.closed.ending == "failed" and (decides or not run.results):
        return _failed(run, run.closed)
    if comparison is not None:
        return _open(run, comparison) if run.closed is None else _of_blocks(comparison, gate, _budget(run))
    if gate is not None and run.opened.verb == "gate":
        return Headline(says="none", sentence=_gate_sentence(gate))
    if run.closed is not None and run.opened.verb in ALONE:
        return _told(run, run.closed)
    if run.opened.verb in COMPARING or run.closed is None:
        return _without_blocks(run, levers)
    return _of_trials(run)


def _failed(run: Replay, closed: RunClosed) -> Headline:
    """A run that failed has no result, whatever the blocks before its failure gave."""
    sentence = f"The run failed: {closed.because.rstrip('.')}."
    return Headline(says="none", sentence=sentence, metric=primary_metric(run))


def _told(run: Replay, closed: RunClosed) -> Headline:
    """What a measurement of its own came to."""
    sentence = f"The run failed: {closed.because.rstrip('.')}." if closed.ending == "failed" else closed.because
    return Headline(says="none", sentence=sentence, metric=primary_metric(run))


def _open(run: Replay, comparison: Comparison) -> Headline:
    """A run that has not come to its end has no result, whatever it decided so far."""
    so_far = f"{comparison.stage} {comparison.subject} is {comparison.verdict.says}"
    sentence = f"This run is not finished, so it proves nothing yet. So far: {so_far}."
    return Headline(says="none", sentence=sentence, metric=primary_metric(run))


def primary_metric(run: Replay) -> str:
    """The metric that was declared beforehand: in the settings, else in a verdict, else the field's usual one."""
    verdicts = (event.verdict.metric for event in run.events if isinstance(event, NoiseMeasured | Decided))
    return str(run.opened.settings.get("metric") or next(verdicts, "output_tokens_per_s"))


def _budget(run: Replay) -> str:
    """That a `compare` was ended by its budget; a tune says of each lever that the budget cut it."""
    if run.closed is None or run.closed.ending != "budget" or run.opened.verb != "compare":
        return ""
    seconds = float(run.opened.settings.get("budget_s", 0))
    return f" Its budget of {span(seconds)} ended it before the blocks sufficed: run it again with a longer --budget."


def _of_blocks(comparison: Comparison, gate: Gated | None, budget: str = "") -> Headline:
    verdict, points = comparison.verdict, comparison.points
    return Headline(
        says=verdict.says,
        sentence=_effect_sentence(comparison) + _quality_clause(gate) + budget,
        metric=verdict.metric,
        unit=comparison.unit,
        better=comparison.better,
        baseline=median([point.a for point in points]) if points else None,
        final=median([point.b for point in points]) if points else None,
        uplift=verdict.effect,
        blocks=verdict.blocks,
        detectable=verdict.detectable,
    )


def _effect_sentence(comparison: Comparison) -> str:
    """Who does what to which metric, how surely; the closing stop is left to the quality clause."""
    verdict = comparison.verdict
    subject, other = ("B", "A") if comparison.stage == "compare" else ("the tuned recipe", "the baseline")
    name = metric_name(verdict.metric)
    if verdict.effect is None:
        return f"{_capital(subject)} and {other} were not compared often enough to say anything about {name}"
    size, reach = gain(verdict.effect, comparison.better)
    sure = f"{100 * verdict.effect.confidence:.0f} % interval {reach}"
    basis = f"({sure}, {count(verdict.blocks, 'pair')} of fresh server starts)"
    if verdict.says in ("better", "worse"):
        return f"{_capital(subject)} gives {size} {name} than {other} {basis}"
    if verdict.says == "same":
        return f"{_capital(subject)} is no better than {other}: it gave {size} {name} {basis}"
    sentence = f"No difference was shown between {subject} and {other}: the estimate is {size} {name} {basis}"
    return sentence + _against(comparison)


def _against(comparison: Comparison) -> str:
    """Few blocks can have medians that point the other way than their paired estimate; a reader sees both."""
    points, effect = comparison.points, comparison.verdict.effect
    if effect is None or not points:
        return ""
    a, b = median([point.a for point in points]), median([point.b for point in points])
    if a == b or ((b > a) == (comparison.better == "higher")) == (effect.ratio > 1):
        return ""
    return (
        f"; the medians, {amount(a, comparison.unit)} and {amount(b, comparison.unit)}, point the other way, "
        "so blocks differ by more than the two recipes do"
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _quality_clause(gate: Gated | None) -> str:
    if gate is None:
        return ". Whether the answers are as good was not tested."
    if gate.passed:
        return ", and the answers are as good (quality gate passed)."
    return f". Do not use it: the quality gate did not pass ({gate.because.rstrip('.')})."


def _gate_sentence(gate: Gated) -> str:
    if gate.passed:
        return "The answers are as good: the quality gate passed."
    return f"The answers were not shown to be as good: {gate.because.rstrip('.')}."


def _without_blocks(run: Replay, levers: Sequence[LeverRow]) -> Headline:
    """A run that was to compare but proved nothing: closed without a lever worth proving, or not closed."""
    if run.closed is None:
        so_far = count(len(run.results), "trial")
        sentence = f"This run is not finished: {so_far} so far, and no result yet."
    elif run.closed.ending == "interrupted":
        sentence = "The run was interrupted before it had a result. It can be resumed."
    else:
        sentence = _nothing_sentence(run, levers)
    return Headline(says="none", sentence=sentence, metric=primary_metric(run))


def _nothing_sentence(run: Replay, levers: Sequence[LeverRow]) -> str:
    """What was not shown, and how far that reaches: only what stood in blocks was looked at closely enough."""
    verdicts = {e.subject: e.verdict for e in run.events if isinstance(e, Decided) and e.stage == "confirm"}
    compared = {name: verdict for name, verdict in verdicts.items() if verdict.blocks >= MINIMUM_BLOCKS}
    better = any(verdict.says == "better" for verdict in compared.values())
    sentences = ["No lever was kept." if better else "Nothing was shown to beat the baseline."]
    seen = [
        f"{percent(1 + v.detectable).lstrip('+')} from {name}" for name, v in compared.items() if v.says != "better"
    ]
    if seen:
        sentences.append(f"Most likely seen would have been a gain of at least {', '.join(seen)}.")
    if lonely := sum(row.name not in compared for row in levers):
        were = "lever was" if lonely == 1 else "levers were"
        sentences.append(f"{lonely} {were} never compared in blocks.")
    return " ".join(sentences)


def _of_trials(run: Replay) -> Headline:
    """A bench: one recipe, measured, nothing compared."""
    metric, results = primary_metric(run), list(run.results.values())
    readings = [found for result in results if result.ending == "ok" and (found := reading(result, metric))]
    if not readings:
        sentence = _failed_sentence(results[-1], metric) if results else "No trial has ended."
        return Headline(says="none", sentence=sentence, metric=metric)
    value = median([found.value for found in readings])
    basis = "one trial" if len(readings) == 1 else f"median of {len(readings)} trials"
    bad = [result for result in results if result.ending != "ok"]
    if bad:
        why = ", ".join(dict.fromkeys(result.failure or result.ending for result in bad))
        basis = f"{len(readings)} of {len(results)} trials; {len(bad)} failed: {why}"
    return Headline(
        says="none",
        sentence=f"{run.opened.name}: {amount(value)} {metric_name(metric)} ({basis}; nothing was compared).",
        metric=metric,
        unit=readings[0].unit,
        better=readings[0].better,
        final=value,
    )


def _failed_sentence(result: TrialResult, metric: str) -> str:
    if result.ending == "ok":
        return f"The trial ended well but has no {metric_name(metric)}."
    ended = f"The trial {'failed' if result.ending == 'failed' else 'was cut off'}: {result.failure or 'no reason'}"
    if not (line := result.log_line.strip()):
        return f"{ended}."
    return f"{ended}: {line}." if result.failure in _OF_THE_CLIENT else f"{ended}. The log says: {line}"
