"""The quality gate: are B's answers as good as A's, on the same items, at the load's concurrency?

    exam = plan_exam(case.quality, strength(lever.risk, greedy), seed)      fresh items, the same for A and B
    a = collect(exam, model, streams, ask_a)                                 while a server of A runs
    b = collect(exam, model, streams, ask_b)                                 while a server of B runs
    gated = judge(subject, recipe_hash, (a, b), gate_rules(case.quality), greedy)

`ask` sends bodies to one server, so this room starts nothing and is tested with a fake.
"""

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from servesmith.errors import InputError, Problem
from servesmith.measure.answers import Answer, Sheet
from servesmith.measure.records import RequestRecord
from servesmith.quality.tasks.base import Item, Task
from servesmith.quality.tasks.builtin import choose_tasks
from servesmith.recipe.model import Quality, Risk
from servesmith.stats.gate import GateRules, plan_items
from servesmith.store.events import Gated, GreedyAgreement
from servesmith.store.gates import judge_sheets

Ask = Callable[[Sequence[bytes], int], list[RequestRecord]]
"""Request bodies and concurrency to one record a body, in order, with its text."""


class GateStrength(msgspec.Struct, frozen=True, kw_only=True):
    """How much a gate of this strength asks."""

    discordance: float
    """Share of items on which two equally good recipes are expected to differ; more of it needs more items."""
    greedy_prompts: int
    """Prompts that are compared word for word at one stream."""


LOSSLESS = GateStrength(discordance=0.05, greedy_prompts=8)
NUMERICS = GateStrength(discordance=0.10, greedy_prompts=16)


class Questions(msgspec.Struct, frozen=True):
    """One task's items for one gate."""

    task: Task
    items: tuple[Item, ...]


class Exam(msgspec.Struct, frozen=True):
    """All that both arms are asked in one gate."""

    seed: int
    questions: tuple[Questions, ...]


def strength(risk: Risk, greedy: GreedyAgreement | None = None, *, allowed: bool = False) -> GateStrength:
    """How strong the gate of a lever must be.

    A lever that calls itself lossless but changes greedy answers at one stream, where a restart alone changes fewer,
    is gated as one that changes numerics. Raises InputError on a lossy lever that was not allowed by name.
    """
    if risk == "lossy" and not allowed:
        raise InputError(
            Problem("A lossy lever is never gated unasked.", "Allow it by its name, or leave it out.", field="risk")
        )
    return LOSSLESS if risk == "lossless" and not changes_answers(greedy) else NUMERICS


def changes_answers(greedy: GreedyAgreement | None) -> bool:
    """True if fewer greedy answers agree with A's than A's own after a restart."""
    return greedy is not None and greedy.identical < greedy.floor


def gate_rules(quality: Quality, aa_discordance: float | None = None) -> GateRules:
    """What must be shown. `aa_discordance`: as measured between A and A restarted."""
    return GateRules(margin=quality.margin, aa_discordance=aa_discordance)


def plan_exam(quality: Quality, level: GateStrength, seed: int) -> Exam:
    """Draw the items of one gate: as many as the user says, else as the planner needs.

    Raises InputError on unknown tasks, or on more items than a task has.
    """
    tasks = choose_tasks(quality.tasks)
    count = quality.items or plan_items(gate_rules(quality), level.discordance, len(tasks))
    return Exam(seed, tuple(Questions(task, task.items(seed, count)) for task in tasks))


def collect(exam: Exam, model: str, concurrency: int, ask: Ask) -> tuple[Sheet, ...]:
    """Ask one server everything and score what it says; one sheet a task.

    Failed requests are wrong answers with their error class. `model` is the name that the server knows.
    """
    bodies = [request_body(item, model) for part in exam.questions for item in part.items]
    records = iter(ask(bodies, concurrency))
    return tuple(_sheet(exam.seed, part, [next(records) for _ in part.items]) for part in exam.questions)


def judge(
    subject: str,
    recipe_hash: str,
    arms: tuple[Sequence[Sheet], Sequence[Sheet]],
    rules: GateRules,
    greedy: GreedyAgreement | None = None,
) -> Gated:
    """Decide from both arms' sheets, (A, B). The journal's keys and file hashes are for the caller to fill in.

    Greedy agreement is told and steers the strength (see `strength`); it does not decide: a changed word can be as
    good. Raises EvidenceError if A and B did not answer the same items.
    """
    verdict = judge_sheets(*arms, rules)
    because = f"{verdict.because} {_tell_greedy(greedy)}".strip()
    return Gated(
        subject=subject,
        recipe_hash=recipe_hash,
        passed=verdict.passed,
        tasks=verdict.tasks,
        greedy=greedy,
        because=because,
    )


def request_body(item: Item, model: str) -> bytes:
    """The chat request of one item: temperature 0, streamed, everything else as the server has it."""
    return chat_body(_messages(item), model, item.max_tokens)


def chat_body(messages: Sequence[dict[str, str]], model: str, max_tokens: int) -> bytes:
    """A greedy, streamed chat request."""
    body = {
        "model": model,
        "messages": messages,
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return msgspec.json.encode(body)


def _messages(item: Item) -> list[dict[str, str]]:
    turns = [
        {"role": role, "content": content}
        for example in item.examples
        for role, content in zip(("user", "assistant"), example, strict=True)
    ]
    return [*turns, {"role": "user", "content": item.prompt}]


def _sheet(seed: int, part: Questions, records: Sequence[RequestRecord]) -> Sheet:
    task = part.task
    answers = tuple(
        Answer(
            item=index,
            prompt=hashlib.sha256(msgspec.json.encode(_messages(item))).hexdigest()[:16],
            expected=item.expected,
            answer=record.text,
            right=record.ok and task.score(item, record.text),
            finish=record.finish,
            error=record.error,
        )
        for index, (item, record) in enumerate(zip(part.items, records, strict=True))
    )
    return Sheet(task=task.name, chance=task.chance, licence=task.licence, seed=seed, answers=answers)


def _tell_greedy(greedy: GreedyAgreement | None) -> str:
    if greedy is None:
        return ""
    told = (
        f"Greedy answers at one stream: {greedy.identical} of {greedy.prompts} identical to A's "
        f"(A restarted: {greedy.floor})."
    )
    return f"{told} So it is not lossless here." if changes_answers(greedy) else told
