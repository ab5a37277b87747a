"""The sim adapter and its pure model."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.engine.sim import Sim
from servesmith.engine.simmodel import (
    TEMPLATE_TOKENS,
    BadRequest,
    Schedule,
    SimOptions,
    answer,
    chunks,
    factor,
    read_ask,
    template,
    tokens,
    unit,
)
from servesmith.errors import InputError
from servesmith.recipe.model import Recipe


def ask(prompt: str, options: SimOptions | None = None, **body):
    chat = {"messages": [{"role": "user", "content": prompt}], **body}
    return read_ask(chat, options or SimOptions(), chat=True)


def said(prompt: str, options: SimOptions, **body) -> str:
    return " ".join(answer(ask(prompt, options, **body), options)[0])


def test_flags_of_a_recipe_are_options():
    recipe = Recipe(
        name="x", engine="sim", model="m", flags={"gap-ms": 2, "ping": True, "split-events": False}, env={"A": "b"}
    )
    command = Sim().command(recipe, 99)
    assert command.argv == (
        *(sys.executable, "-P", "-m", "servesmith.engine.simserver", "--port", "99", "--model-name", "m"),
        *("--gap-ms", "2", "--ping"),
    )
    assert command.env == {"A": "b"}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"gap": 2}, "Did you mean gap-ms"),
        ({"port": 2}, "servesmith's to choose"),
        ({"slots": 2.5}, "2.5 is no int"),
        ({"ping": "yes"}, "'yes' is no bool"),
        ({"gap-ms": "fast"}, "'fast' is no float"),
    ],
)
def test_refused_flags(flags, says):
    with pytest.raises(InputError, match=says):
        Sim().command(Recipe(name="x", engine="sim", flags=flags), 1)


def test_facts_are_the_options_as_resolved():
    assert Sim().facts(['sim {"slots": 4, "gap_ms": 2.0}'], {}).values == {"slots": "4", "gap_ms": "2.0"}


@given(st.text())
def test_a_token_is_a_word_and_the_template_adds_four(text):
    assert len(tokens(text)) == len(text.split())
    assert len(tokens(template([{"content": text}]))) == len(text.split()) + TEMPLATE_TOKENS


def test_token_ids_as_prompt():
    assert read_ask({"prompt": [5, 6, 7]}, SimOptions(), chat=False).prompt_tokens == 3
    with pytest.raises(BadRequest):
        read_ask({"prompt": [[5], [6]]}, SimOptions(), chat=False)


def test_the_context_is_a_limit():
    with pytest.raises(BadRequest, match="exceed the context of 10"):
        ask("a b c", SimOptions(ctx=10), max_tokens=4)


@given(st.text(), st.integers(1, 200))
def test_exact_lengths_are_exact(prompt, limit):
    words, finish = answer(ask(prompt, max_tokens=limit, ignore_eos=True), SimOptions())
    assert (len(words), finish) == (limit, "length")


def test_answers_depend_on_the_prompt_alone():
    assert said("a", SimOptions(seed=1)) == said("a", SimOptions(seed=2, gap_ms=1))
    assert said("a", SimOptions()) != said("b", SimOptions())


def test_marked_answers_are_right_or_wrong_as_often_as_asked():
    assert said("What? ANSWER=no ANSWER=forty two", SimOptions()) == "forty two"
    assert said("ANSWER=forty two", SimOptions(), max_tokens=1) == "forty"
    options = SimOptions(answers_wrong=0.2)
    wrong = [number for number in range(1000) if said(f"{number} ANSWER=x", options) != "x"]
    assert 150 < len(wrong) < 250
    assert wrong == [number for number in range(1000) if said(f"{number} ANSWER=x", options) != "x"]
    more = SimOptions(answers_wrong=0.4)
    assert all(said(f"{number} ANSWER=x", more) != "x" for number in wrong)


@given(st.integers(1, 60), st.integers(1, 7), st.integers(0, 70))
def test_chunks_are_the_answer_cut_up(limit, per_chunk, reasoning):
    options = SimOptions(tokens_per_chunk=per_chunk, reasoning_first=reasoning)
    asked = ask("x", options, max_tokens=limit, ignore_eos=True)
    parts, _ = chunks(asked, options)
    assert sum(len(part.ids) for part in parts) == limit
    assert all(0 < len(part.ids) <= per_chunk for part in parts)
    assert sum(len(part.ids) for part in parts if part.kind == "reasoning") == min(reasoning, limit)
    text = {kind: "".join(part.text for part in parts if part.kind == kind) for kind in ("reasoning", "content")}
    assert f"{text['reasoning']} {text['content']}".split() == answer(asked, options)[0]


def test_the_schedule():
    schedule = Schedule(SimOptions(ttft_ms=50, prefill_ms_per_token=0.5, gap_ms=10, slope=0.25), speed=2.0)
    assert schedule.first(100) == pytest.approx(0.2)
    assert schedule.step(1) == pytest.approx(0.02)
    assert schedule.step(5) == pytest.approx(0.04)


def test_noise_is_lognormal_and_belongs_to_its_start():
    assert factor(0.0, 1, "start", 5) == 1.0
    assert factor(0.01, 1, "start", 5) == factor(0.01, 1, "start", 5) != factor(0.01, 1, "start", 6)
    draws = sorted(factor(0.1, 1, "start", number) for number in range(2000))
    assert draws[1000] == pytest.approx(1.0, abs=0.01)
    assert draws[1682] == pytest.approx(1.105, abs=0.015)  # one sd above, e ** 0.1


@given(st.integers(), st.text())
def test_unit_is_in_its_interval(seed, text):
    assert 0 <= unit(seed, text) < 1
