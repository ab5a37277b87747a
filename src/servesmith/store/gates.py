"""The gate, computed again from the answers of two arms: what `verify` needs, without a server and without a task."""

from collections.abc import Sequence
from pathlib import Path

from servesmith.errors import EvidenceError
from servesmith.measure.answers import GREEDY, SUFFIX, Sheet, read_sheets
from servesmith.stats.gate import GateRules, GateVerdict, TaskPair, judge_tasks
from servesmith.store.events import GreedyAgreement

Texts = Sequence[str | None]
"""Greedy answers in the order of their prompts; None where the request failed."""


def recompute(folder_a: Path, folder_b: Path, rules: GateRules) -> GateVerdict:
    """Judge the answers recorded in two folders again.

    Raises EvidenceError naming the file that is missing, broken or of other items.
    """
    return judge_sheets(read_sheets(folder_a), read_sheets(folder_b), rules)


def judge_sheets(a: Sequence[Sheet], b: Sequence[Sheet], rules: GateRules) -> GateVerdict:
    """Judge B's answers against A's, task by task and together. Raises EvidenceError if the items are not the same."""
    by_name_a = {sheet.task: sheet for sheet in a}
    by_name_b = {sheet.task: sheet for sheet in b}
    lonely = by_name_a.keys() ^ by_name_b.keys()
    if lonely:
        raise EvidenceError(f"{min(lonely)}{SUFFIX}", "only one of A and B answered it.", "Give both the same tasks.")
    return judge_tasks([pair(by_name_a[name], by_name_b[name]) for name in sorted(by_name_a)], rules)


def pair(a: Sheet, b: Sheet) -> TaskPair:
    """Put A's and B's answers to the same items side by side.

    An item whose request failed in B is wrong. One whose request failed in A is left out of both arms: counted as
    wrong it would flatter B. Raises EvidenceError if the sheets are not of the very same items.
    """
    if _items(a) != _items(b):
        raise EvidenceError(
            f"{a.task}{SUFFIX}",
            "A and B did not answer the same items.",
            "Use the same task, seed and number of items.",
        )
    both = [(x, y) for x, y in zip(a.answers, b.answers, strict=True) if not x.error]
    return TaskPair(
        task=a.task,
        chance=a.chance,
        a=tuple(x.right for x, _ in both),
        b=tuple(y.right for _, y in both),
        a_failed=a.failed,
        b_failed=sum(y.error != "" for _, y in both),
    )


def discordance(a: Sequence[Sheet], again: Sequence[Sheet]) -> float:
    """Share of all items on which A and A restarted are not both right or both wrong.

    Raises EvidenceError if the items are not the same.
    """
    if len(a) != len(again):
        raise EvidenceError(f"*{SUFFIX}", f"A answered {len(a)} tasks, A restarted {len(again)}.")
    pairs = [pair(x, y) for x, y in zip(a, again, strict=True)]
    items = sum(len(one.a) for one in pairs)
    return sum(x != y for one in pairs for x, y in zip(one.a, one.b, strict=True)) / items if items else 0.0


def agreement(a: Texts, b: Texts, again: Texts) -> GreedyAgreement:
    """Count the greedy answers of B, and of A restarted (`again`), that are A's to the letter.

    A failed request (None) agrees with nothing. Raises EvidenceError if the three are not of the same length.
    """
    if not len(a) == len(b) == len(again):
        lengths = f"A has {len(a)} greedy answers, A restarted {len(again)}, B {len(b)}"
        raise EvidenceError(GREEDY, f"{lengths}: they are not of the same prompts.")
    return GreedyAgreement(prompts=len(a), identical=_identical(a, b), floor=_identical(a, again))


def _identical(a: Texts, b: Texts) -> int:
    return sum(x is not None and x == y for x, y in zip(a, b, strict=True))


def _items(sheet: Sheet) -> tuple[object, ...]:
    """All that must be equal for two sheets to be of the same items."""
    keys = tuple((answer.item, answer.prompt, answer.expected) for answer in sheet.answers)
    return (sheet.task, sheet.chance, sheet.seed, keys)
