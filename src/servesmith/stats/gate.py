"""One decision from several tasks: pooled non-inferiority, with a veto for a loss that one task shows.

Pooled, because a margin that must be shown on every task alone needs several times the items (docs/quality.md). The
items of all tasks that have power are judged as one paired sample, so the margin is one on their mean accuracy. What
pooling could hide, a large loss on one task, is caught by that task's own exact McNemar test. The two errors are split:
`alpha` bounds the pass of a recipe that is worse by the margin; `veto_alpha`, shared by all tasks, bounds the veto
against a recipe that is not worse, and the planner adds it to the power that it asks for.
"""

from collections.abc import Sequence

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.stats.noninferiority import Gate, judge_gate, near_chance
from servesmith.stats.plan import items_needed
from servesmith.stats.verdict import ItemsVerdict

POOLED = "all tasks"
_NO_POWER = "No task has power, and a powerless task passes nothing."


class GateRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate must show. Raises ValueError on values that make no sense."""

    margin: float = 0.05
    """Largest loss of mean accuracy allowed: 0.05 is five points."""
    alpha: float = 0.05
    """Chance that a recipe worse by exactly the margin passes."""
    veto_alpha: float = 0.01
    """Chance that an equal recipe is vetoed by any of the tasks."""
    power: float = 0.90
    """Chance that an equal recipe passes, which the planner provides for."""
    aa_discordance: float | None = None
    """Share of items on which A and A restarted differ, if that was measured."""

    def __post_init__(self) -> None:
        if not (0 < self.margin < 1 and 0 < self.alpha < 0.5 and 0 < self.veto_alpha < 0.5):
            raise ValueError("need 0 < margin < 1, 0 < alpha < 0.5, 0 < veto_alpha < 0.5")
        if not 0 < self.power < 1 - self.veto_alpha:
            raise ValueError("need 0 < power < 1 - veto_alpha")


class TaskPair(msgspec.Struct, frozen=True, kw_only=True):
    """The paired outcomes of one task (True: right), parallel."""

    task: str
    chance: float
    a: Sequence[bool]
    b: Sequence[bool]
    a_failed: int = 0
    """Items left out because A's request failed."""
    b_failed: int = 0
    """Items of `b` that are wrong because B's request failed."""


class GateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's decision. The last of `tasks` is the pooled comparison, named `all tasks`, unless none had power."""

    passed: bool
    tasks: tuple[ItemsVerdict, ...]
    because: str


def judge_tasks(pairs: Sequence[TaskPair], rules: GateRules) -> GateVerdict:
    """Decide from all tasks together.

    passed: the pooled comparison of the tasks with power says `pass`, no task vetoes, and A failed on no more than a
    margin of its requests. A powerless task passes nothing; if none has power, the gate does not pass.
    Raises InputError if there is no task.
    """
    if not pairs:
        raise InputError(Problem("The gate was given no task.", "Name at least one in quality.tasks."))
    sick = _baseline_failed(pairs, rules)
    if not all(pair.a for pair in pairs):
        return GateVerdict(passed=False, tasks=(), because=sick or "A task has no item that the baseline answered.")
    tasks = tuple(_judge_one(pair, rules, rules.veto_alpha / len(pairs)) for pair in pairs)
    strong = [pair for pair in pairs if not _weak(pair, rules)]
    notes = _notes(pairs, tasks)
    vetoes = [verdict for verdict in tasks if verdict.says == "fail"]
    if not strong:
        return GateVerdict(passed=False, tasks=tasks, because=" ".join([_NO_POWER, *notes]))
    pooled = _pool(strong, rules)
    power = f"An equal recipe would have passed with probability {pooled.power:.0%}."
    reasons = [sick, *(f"{veto.task} vetoes: {veto.because}" for veto in vetoes), pooled.because, power, *notes]
    passed = pooled.says == "pass" and not vetoes and not sick
    return GateVerdict(passed=passed, tasks=(*tasks, pooled), because=" ".join(reason for reason in reasons if reason))


def plan_items(rules: GateRules, discordance: float, tasks: int) -> int:
    """Items per task with which an equal recipe passes the whole gate with probability `rules.power`.

    `discordance` is the share of items on which two equally good recipes are expected to differ. The veto may cost
    `veto_alpha` (union bound), so the pooled comparison is planned for that much more.
    """
    if tasks < 1:
        raise ValueError("a gate needs at least one task")
    total = items_needed(rules.margin, discordance, rules.alpha, rules.power + rules.veto_alpha)
    return -(-total // tasks)


def _judge_one(pair: TaskPair, rules: GateRules, veto_alpha: float) -> ItemsVerdict:
    """One task alone. Powerless means near chance here: too few items alone is no fault, since items are pooled."""
    gate = Gate(margin=rules.margin, alpha=rules.alpha, chance=pair.chance, aa_discordance=rules.aa_discordance)
    verdict = judge_gate(pair.task, pair.a, pair.b, gate)
    lost, won = verdict.a_only, verdict.b_only
    if lost > won and verdict.mcnemar_p / 2 <= veto_alpha:
        return msgspec.structs.replace(
            verdict,
            says="fail",
            because=f"a loss is shown: {lost} items worse, {won} better of {verdict.items} "
            f"(one-sided McNemar p {verdict.mcnemar_p / 2:.2g}, at most {veto_alpha:.2g}).",
        )
    if verdict.says == "pass" or (verdict.says == "powerless" and _weak(pair, rules)):
        return verdict
    return msgspec.structs.replace(
        verdict,
        says="undecided",
        because=f"B minus A is {verdict.difference:+.1%}: {won} better, {lost} worse of {verdict.items} items, too few "
        "to decide alone; they count in the pool.",
    )


def _weak(pair: TaskPair, rules: GateRules) -> bool:
    return near_chance(sum(pair.a) / len(pair.a), pair.chance, rules.margin)


def _pool(pairs: Sequence[TaskPair], rules: GateRules) -> ItemsVerdict:
    """All items as one sample. Chance is the mean over the items."""
    a = [right for pair in pairs for right in pair.a]
    b = [right for pair in pairs for right in pair.b]
    chance = sum(pair.chance * len(pair.a) for pair in pairs) / len(a)
    gate = Gate(margin=rules.margin, alpha=rules.alpha, chance=chance, aa_discordance=rules.aa_discordance)
    return judge_gate(POOLED, a, b, gate)


def _baseline_failed(pairs: Sequence[TaskPair], rules: GateRules) -> str:
    """Why the baseline itself is no reference; empty if it is."""
    failed = sum(pair.a_failed for pair in pairs)
    asked = failed + sum(len(pair.a) for pair in pairs)
    if failed <= rules.margin * asked:
        return ""
    return f"The baseline failed on {failed} of {asked} requests, so it is no reference."


def _notes(pairs: Sequence[TaskPair], tasks: Sequence[ItemsVerdict]) -> list[str]:
    """What a reader must know besides the decision."""
    notes = [f"{verdict.task} is powerless: {verdict.because}" for verdict in tasks if verdict.says == "powerless"]
    a_failed, b_failed = sum(pair.a_failed for pair in pairs), sum(pair.b_failed for pair in pairs)
    if a_failed:
        notes.append(f"{a_failed} items are left out because A's request failed.")
    if b_failed:
        notes.append(f"{b_failed} items count as wrong because B's request failed.")
    return notes
