import msgspec
import pytest
from oracle import guesser, oracle, record

from servesmith.errors import EvidenceError, InputError
from servesmith.measure.answers import write_sheets
from servesmith.quality.gate import (
    LOSSLESS,
    NUMERICS,
    collect,
    gate_rules,
    judge,
    plan_exam,
    request_body,
    strength,
)
from servesmith.quality.tasks.builtin import DEFAULT
from servesmith.recipe.model import Quality
from servesmith.store.events import GreedyAgreement
from servesmith.store.gates import discordance, recompute

QUALITY = Quality()


def run(exam, ask_a, ask_b, greedy=None):
    arms = (collect(exam, "m", 8, ask_a), collect(exam, "m", 8, ask_b))
    return judge("parallel=8", "abcd", arms, gate_rules(QUALITY), greedy)


def test_the_planner_gives_every_task_its_items_and_numerics_more():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    assert [part.task.name for part in exam.questions] == list(DEFAULT)
    counts = {len(part.items) for part in exam.questions}
    assert len(counts) == 1
    assert 40 <= min(counts) <= 60
    assert len(plan_exam(QUALITY, NUMERICS, seed=1).questions[0].items) > 1.5 * min(counts)


def test_the_user_may_fix_items_and_tasks():
    exam = plan_exam(Quality(items=7, tasks=("sort",)), LOSSLESS, seed=1)
    assert [(part.task.name, len(part.items)) for part in exam.questions] == [("sort", 7)]


def test_unharmed_recipe_passes():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    gated = run(exam, oracle(exam, 0.85), oracle(exam, 0.85))
    assert gated.passed
    assert gated.tasks[-1].task == "all tasks"
    assert gated.tasks[-1].power >= 0.9


def test_a_loss_of_two_margins_fails():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    for seed in range(10):
        assert not run(exam, oracle(exam, 0.85), oracle(exam, 0.85, harm=0.10, seed=seed)).passed


def test_a_loss_of_one_margin_passes_seldom():
    exam = plan_exam(QUALITY, LOSSLESS, seed=2)
    a = collect(exam, "m", 8, oracle(exam, 0.85))
    b = [collect(exam, "m", 8, oracle(exam, 0.85, harm=0.05, seed=seed)) for seed in range(60)]
    passed = sum(judge("x", "h", (a, arm), gate_rules(QUALITY)).passed for arm in b)
    assert passed <= 8  # 5 % of 60 is 3; more than 8 has probability 0.003


def test_guessing_on_yes_or_no_is_powerless_and_passes_nothing():
    exam = plan_exam(Quality(tasks=("yesno",), items=200), LOSSLESS, seed=1)
    same = guesser(("yes", "no"), seed=3)
    gated = run(exam, same, same)
    assert not gated.passed
    assert [verdict.says for verdict in gated.tasks] == ["powerless"]
    assert "No task has power" in gated.because


def test_a_powerless_task_beside_a_strong_one_neither_passes_nor_blocks():
    exam = plan_exam(Quality(tasks=("copy", "yesno"), items=200), LOSSLESS, seed=1)
    able = oracle(exam, 0.9)

    def no_to_all_questions(bodies, concurrency):
        return [
            record(index, "no") if b"Is the" in body else answer
            for index, (body, answer) in enumerate(zip(bodies, able(bodies, concurrency), strict=True))
        ]

    gated = run(exam, no_to_all_questions, no_to_all_questions)
    assert gated.passed
    assert {verdict.task: verdict.says for verdict in gated.tasks} == {
        "copy": "pass",
        "yesno": "powerless",
        "all tasks": "pass",
    }
    assert gated.tasks[-1].items == 200
    assert "yesno is powerless" in gated.because


def test_failed_requests_of_b_are_wrong_and_said():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    able = oracle(exam, 0.9)

    def failing(bodies, concurrency):
        answers = able(bodies, concurrency)
        return [record(one.index, "", error="cut") if one.index % 8 == 0 else one for one in answers]

    gated = run(exam, able, failing)
    assert not gated.passed
    assert f"{-(-gated.tasks[-1].items // 8)} items count as wrong because B's request failed" in gated.because


def test_failed_requests_of_a_flatter_nobody():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    able = oracle(exam, 0.9)

    def failing(bodies, concurrency):
        return [record(one.index, "", error="cut") if one.index == 3 else one for one in able(bodies, concurrency)]

    gated = run(exam, failing, able)
    assert gated.passed
    assert gated.tasks[-1].b_only == 0
    assert "1 items are left out because A's request failed" in gated.because


def test_a_dead_baseline_is_no_reference():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)

    def dead(bodies, concurrency):
        return [record(index, "", error="connect") for index, _ in enumerate(bodies)]

    gated = run(exam, dead, dead)
    assert not gated.passed
    assert "The baseline failed on" in gated.because


def test_cut_answers_are_counted():
    exam = plan_exam(Quality(tasks=("copy",), items=5), LOSSLESS, seed=1)
    (sheet,) = collect(exam, "m", 1, lambda bodies, _: [record(i, "x", finish="length") for i, _ in enumerate(bodies)])
    assert (sheet.truncated, sheet.right, sheet.failed) == (5, 0, 0)


def test_collect_asks_each_item_once_at_the_given_concurrency():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    able, seen = oracle(exam, 1.0), []

    def spy(bodies, concurrency):
        seen.append((len(set(bodies)), concurrency))
        return able(bodies, concurrency)

    sheets = collect(exam, "m", 16, spy)
    assert seen == [(sum(len(part.items) for part in exam.questions), 16)]
    assert all(sheet.right == len(sheet.answers) for sheet in sheets)


def test_the_body_is_a_greedy_streamed_chat_with_the_examples_as_turns():
    item = plan_exam(QUALITY, LOSSLESS, seed=1).questions[0].items[0]
    body = msgspec.json.decode(request_body(item, "smol"))
    assert body.keys() == {"model", "messages", "temperature", "max_tokens", "stream", "stream_options"}
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("smol", 0, item.max_tokens)
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant"] * len(item.examples) + ["user"]
    assert body["messages"][-1]["content"] == item.prompt


def test_the_gate_can_be_computed_again_from_its_files(tmp_path):
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    arms = [collect(exam, "m", 8, oracle(exam, 0.85, harm=harm, seed=9)) for harm in (0.0, 0.04)]
    for name, sheets in zip("AB", arms, strict=True):
        write_sheets(tmp_path / name, sheets)
    gated = judge("x", "h", (arms[0], arms[1]), gate_rules(QUALITY))
    again = recompute(tmp_path / "A", tmp_path / "B", gate_rules(QUALITY))
    assert (again.passed, again.tasks, again.because) == (gated.passed, gated.tasks, gated.because)


def test_answers_to_other_items_are_refused():
    exam, other = (plan_exam(QUALITY, LOSSLESS, seed=seed) for seed in (1, 2))
    with pytest.raises(EvidenceError, match="did not answer the same items"):
        judge(
            "x",
            "h",
            (collect(exam, "m", 1, oracle(exam, 1.0)), collect(other, "m", 1, oracle(other, 1.0))),
            gate_rules(QUALITY),
        )


def test_discordance_of_two_runs_of_a():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    a = collect(exam, "m", 8, oracle(exam, 1.0))
    assert discordance(a, a) == 0.0
    again = collect(exam, "m", 8, oracle(exam, 1.0, harm=0.2))
    wrong = sum(len(sheet.answers) - sheet.right for sheet in again)
    assert discordance(a, again) == pytest.approx(wrong / sum(len(sheet.answers) for sheet in a))


def test_strength_follows_the_risk_and_what_greedy_answers_say():
    same = GreedyAgreement(prompts=8, identical=7, floor=7)
    less = GreedyAgreement(prompts=8, identical=6, floor=7)
    assert strength("lossless") == strength("lossless", same) == LOSSLESS
    assert strength("lossless", less) == strength("numerics") == strength("lossy", allowed=True) == NUMERICS
    with pytest.raises(InputError, match="lossy"):
        strength("lossy")


def test_greedy_is_told():
    exam = plan_exam(QUALITY, LOSSLESS, seed=1)
    gated = run(exam, oracle(exam, 0.9), oracle(exam, 0.9), GreedyAgreement(prompts=8, identical=6, floor=8))
    assert gated.passed
    assert "6 of 8 identical to A's (A restarted: 8). So it is not lossless here." in gated.because
