"""From recorded trials to a verdict: the one place where that is done, for the loop and for `verify` alike."""

from collections.abc import Mapping, Sequence

import msgspec

from servesmith.measure.metrics import METRICS
from servesmith.recipe.model import Goal
from servesmith.stats.limits import limit_breach
from servesmith.stats.sample import log_ratios
from servesmith.stats.sequential import Rules, judge, judge_fixed
from servesmith.stats.verdict import Verdict
from servesmith.store.events import RunOpened, TrialResult

Pair = tuple[TrialResult, TrialResult]


def rules_of(opened: RunOpened) -> Rules:
    """The rules that the run was opened with; what its settings do not say is as it is by default."""
    settings = opened.settings
    values: dict[str, object] = {name: settings[name] for name in ("alpha", "minimum_gain") if name in settings}
    if "looks" in settings:
        values["looks"] = [int(look) for look in str(settings["looks"]).split(",")]
    return msgspec.convert(values, Rules)


def pairs_of(keys: Sequence[str], results: Mapping[str, TrialResult]) -> list[Pair]:
    """Blocks from keys in the order A1, B1, A2, B2, ..."""
    return [(results[a], results[b]) for a, b in zip(keys[::2], keys[1::2], strict=True)]


def ratios(pairs: Sequence[Pair], metric: str) -> tuple[float, ...]:
    """Per block ln(B / A) of a metric, signed so that positive is better."""
    a = [pair[0].metrics[metric].value for pair in pairs]
    b = [pair[1].metrics[metric].value for pair in pairs]
    return tuple(log_ratios(a, b, METRICS[metric].better))


def verdict_of(
    pairs: Sequence[Pair], goal: Goal, rules: Rules, *, fixed: bool = False, planned: int | None = None
) -> Verdict:
    """The verdict on the goal's metric. `fixed`: the number of blocks was set beforehand, so there is one look;
    `planned` is that number, and with another one nothing is decided."""
    breaches = tuple(
        text
        for key, limit in goal.limits.items()
        if (text := limit_breach(key, [b.metrics[key].value for _, b in pairs], limit, METRICS[key].better))
    )
    values = ratios(pairs, goal.metric)
    if fixed:
        return judge_fixed(values, goal.metric, rules, limit_breaches=breaches, planned=planned)
    return judge(values, goal.metric, rules, limit_breaches=breaches)


def secondary_verdict(
    pairs: Sequence[Pair], metric: str, rules: Rules, *, fixed: bool = False, planned: int | None = None
) -> Verdict:
    """The verdict on a metric that a lever declared beforehand; the rest as for `verdict_of`."""
    values = ratios(pairs, metric)
    return judge_fixed(values, metric, rules, planned=planned) if fixed else judge(values, metric, rules)
