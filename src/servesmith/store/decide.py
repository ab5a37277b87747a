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


def verdict_of(pairs: Sequence[Pair], goal: Goal, rules: Rules, *, planned: int | None = None) -> Verdict:
    """The verdict on the goal's metric, by sequential looks. `planned`: the number of blocks was set beforehand, so
    there is one look, and with another number of blocks nothing is decided."""
    return _judged(pairs, goal, goal.metric, rules, planned)


def secondary_verdict(
    pairs: Sequence[Pair], goal: Goal, metric: str, rules: Rules, *, planned: int | None = None
) -> Verdict:
    """The verdict on a metric that a lever declared beforehand, at half of alpha since it is a second claim.

    The goal's limits hold for it too. `planned` is as for `verdict_of`.
    """
    return _judged(pairs, goal, metric, msgspec.structs.replace(rules, alpha=rules.alpha / 2), planned)


def _judged(pairs: Sequence[Pair], goal: Goal, metric: str, rules: Rules, planned: int | None) -> Verdict:
    breaches = tuple(
        text
        for key, limit in goal.limits.items()
        if (text := limit_breach(key, [b.metrics[key].value for _, b in pairs], limit, METRICS[key].better))
    )
    values = ratios(pairs, metric)
    if planned is not None:
        return judge_fixed(values, metric, rules, limit_breaches=breaches, planned=planned)
    return judge(values, metric, rules, limit_breaches=breaches)
