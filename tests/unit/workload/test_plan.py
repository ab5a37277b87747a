"""Plans: lengths from distributions, prefixes by their share, sessions, and what a cache can have of them."""

import json
import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servertokens import AROUND, StartTokenizer, WordTokenizer

from servesmith.errors import InputError
from servesmith.recipe.model import Lengths, Prefixes, Sessions, Workload
from servesmith.workload.lengths import draw, mean_output_tokens
from servesmith.workload.plan import Plan, cached_share, planned
from servesmith.workload.synthetic import build, build_set

sizes = st.integers(1, 5000)


@given(sizes, sizes, st.integers(0, 2**40), st.integers(0, 60))
def test_uniform_lengths_lie_between_their_bounds_and_do_not_hang_on_the_count(a, b, seed, count):
    lengths = Lengths(kind="uniform", low=min(a, b), high=max(a, b))
    drawn = draw(lengths, "prompt", seed, 60)
    assert all(min(a, b) <= value <= max(a, b) for value in drawn)
    assert draw(lengths, "prompt", seed, count) == drawn[:count]


def test_uniform_takes_every_value_alike():
    counts = np.bincount(draw(Lengths(kind="uniform", low=3, high=7), "output", 1, 10_000))
    assert counts.shape == (8,) and all(abs(count - 2000) < 200 for count in counts[3:])


def test_a_low_of_zero_means_one_token():
    assert min(draw(Lengths(kind="uniform", high=2), "prompt", 1, 100)) == 1


def test_lognormal_has_the_mean_and_deviation_that_it_says():
    drawn = draw(Lengths(kind="lognormal", mean=2000, stdev=700), "prompt", 1, 20_000)
    assert statistics.fmean(drawn) == pytest.approx(2000, rel=0.02)
    assert statistics.stdev(drawn) == pytest.approx(700, rel=0.03)
    logs = np.log(drawn)
    assert abs(float(((logs - logs.mean()) ** 3).mean() / logs.std() ** 3)) < 0.1  # its logarithm is symmetric


@given(st.integers(1, 900), st.integers(0, 3000), st.integers(0, 999))
def test_lognormal_keeps_its_bounds(low, over, seed):
    lengths = Lengths(kind="lognormal", mean=low + over / 2, stdev=1000, low=low, high=low + over)
    assert all(low <= value <= low + over for value in draw(lengths, "prompt", seed, 50))


def test_prompt_and_output_of_a_trace_come_from_one_row(tmp_path):
    lines = [{"timestamp": n, "input_length": 100 + n, "output_length": 10 + n} for n in range(50)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    lengths = Lengths(kind="trace", trace=str(path), trace_format="timed")
    plans = planned(Workload(prompt_lengths=lengths, output_lengths=lengths), 1, 200)
    assert {plan.prompt_tokens - plan.output_tokens for plan in plans} == {90}
    assert len({plan.prompt_tokens for plan in plans}) > 40
    assert mean_output_tokens(Workload(output_lengths=lengths)) == 34.5


@pytest.mark.parametrize(
    ("lengths", "mean"),
    [
        (None, 64),
        (Lengths(kind="fixed", tokens=9), 9),
        (Lengths(kind="uniform", low=10, high=30), 20),
        (Lengths(kind="lognormal", mean=33.5, stdev=2), 33.5),
    ],
)
def test_mean_output(lengths, mean):
    assert mean_output_tokens(Workload(output_lengths=lengths)) == mean


def test_drawn_lengths_are_met_exactly():
    workload = Workload(
        prompt_lengths=Lengths(kind="lognormal", mean=120, stdev=60, low=40, high=400),
        output_lengths=Lengths(kind="uniform", low=5, high=50),
    )
    tokenizer = StartTokenizer("e")
    for prompt in build(workload, tokenizer, 1, 60):
        body = json.loads(prompt.body)
        assert tokenizer.count_messages(body["messages"]) == prompt.prompt_tokens
        assert body["max_tokens"] == prompt.output_tokens


def test_a_drawn_length_that_is_too_short_names_the_least():
    with pytest.raises(InputError, match="Set low to 24 or more"):
        build(Workload(prompt_lengths=Lengths(kind="uniform", low=5, high=6)), WordTokenizer(), 1, 3)
    with pytest.raises(InputError, match="Set low to 3 or more"):
        workload = Workload(api="completions", text="ids", prompt_lengths=Lengths(kind="uniform", low=1, high=2))
        build(workload, WordTokenizer(), 1, 3)


# --- prefixes


@given(st.floats(0.01, 1), st.integers(1, 300))
def test_every_stretch_has_its_share_of_prefixes(share, count):
    plans = planned(Workload(prefixes=Prefixes(count=4, tokens=10, share=share)), 1, count)
    assert abs(sum(plan.prefix >= 0 for plan in plans) - share * count) < 1
    assert all(-1 <= plan.prefix < 4 for plan in plans)


@pytest.mark.parametrize("text", ["words", "ids"])
def test_the_cached_share_is_what_can_be_shared(text):
    """Held against the longest common beginnings of the prompts themselves."""
    pool = Prefixes(count=3, tokens=30, share=0.6)
    workload = Workload(api="completions", text=text, prompt_tokens=60, prefixes=pool)
    made = build_set(workload, WordTokenizer(bos=0), 5, 100)
    prompts = [json.loads(prompt.body)["prompt"] for prompt in made.prompts]
    tokens = [prompt if text == "ids" else prompt.split() for prompt in prompts]
    shared = 0
    for place, own in enumerate(tokens):
        common = [
            next((n for n, (x, y) in enumerate(zip(own, other, strict=False)) if x != y), 60)
            for other in tokens[:place]
        ]
        best = max(common, default=0)
        assert best < 10 or 30 <= best < 36  # a chance word or two beyond what is meant
        shared += 30 if best >= 30 else 0
    assert made.cached_share == pytest.approx(shared / 6000)
    assert made.cached_share == pytest.approx(0.6 * 30 / 60, abs=3.01 * 30 / 6000)


def test_caches_keep_whole_blocks():
    plans = [Plan(n, 100, 1, prefix=0) for n in range(5)]
    assert cached_share(plans, 30) == 4 * 30 / 500
    assert cached_share(plans, 30, cache_block=16) == 4 * 16 / 500


# --- sessions


@pytest.mark.parametrize("tokenizer", [WordTokenizer("e"), StartTokenizer("s")], ids=["plain", "start"])
def test_turns_repeat_the_talk_with_exact_lengths(tokenizer):
    sessions = Sessions(turns=3, question_tokens=25, think_s=2.0, think="fixed")
    prompts = build(Workload(prompt_tokens=50, output_tokens=12, sessions=sessions), tokenizer, 1, 12)
    assert [(p.session, p.turn, p.think_s) for p in prompts[:4]] == [(0, 0, 0.0), (0, 1, 2.0), (0, 2, 2.0), (1, 0, 0.0)]
    assert [p.prompt_tokens for p in prompts] == [50, 87, 124] * 4  # 12 of the answer and 25 of the question
    talks = [json.loads(p.body)["messages"] for p in prompts]
    assert [tokenizer.count_messages(talk) for talk in talks] == [50, 87, 124] * 4
    for prompt, talk in zip(prompts, talks, strict=True):
        assert [message["role"] for message in talk] == ["user", "assistant", "user", "assistant", "user"][: len(talk)]
        assert len(talk) == 2 * prompt.turn + 1
        if prompt.turn:
            assert talk[:-2] == talks[prompt.index - 1]
            assert tokenizer.count_chat(talk[-2]["content"]) - 21 in (12, 13)  # 13: the first word takes one more
    assert len({json.dumps(talk[0]) for talk in talks}) == 4


def test_sessions_of_ids_and_of_text_grow_in_place():
    sessions = Sessions(turns=3, question_tokens=25)
    for text in ("ids", "words"):
        workload = Workload(api="completions", text=text, prompt_tokens=50, output_tokens=12, sessions=sessions)
        contents = [json.loads(p.body)["prompt"] for p in build(workload, WordTokenizer(bos=0), 1, 6)]
        tokens = [content if text == "ids" else content.split() for content in contents]
        assert [len(own) for own in tokens] == [50, 87, 124] * 2
        assert tokens[1][:50] == tokens[0] and tokens[2][:87] == tokens[1] and tokens[3][:3] != tokens[0][:3]


def test_think_times_have_their_mean_and_do_not_hang_on_the_count():
    workload = Workload(sessions=Sessions(turns=2, think_s=3.0))
    pauses = [plan.think_s for plan in planned(workload, 1, 4000) if plan.turn]
    assert statistics.fmean(pauses) == pytest.approx(3, rel=0.06)
    assert statistics.stdev(pauses) == pytest.approx(3, rel=0.1)
    assert [plan.think_s for plan in planned(workload, 1, 10) if plan.turn] == pauses[:5]


def test_a_cache_can_have_the_prompt_of_the_turn_before():
    made = build_set(Workload(prompt_tokens=50, output_tokens=12, sessions=Sessions(turns=3)), WordTokenizer(), 1, 6)
    tokens = [prompt.prompt_tokens for prompt in made.prompts]
    before = sum(a for a, b in pairwise(made.prompts) if b.turn for a in [a.prompt_tokens])
    assert made.cached_share == before / sum(tokens)


def test_a_question_without_room_says_how_many_tokens_it_needs():
    sessions = Sessions(turns=2, question_tokens=1)
    with pytest.raises(InputError, match=f"takes {2 * AROUND} more"):
        build(Workload(prompt_tokens=50, output_tokens=12, sessions=sessions), WordTokenizer(), 1, 2)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_plans_do_not_hang_on_their_number(seed, count):
    workload = Workload(
        prompt_lengths=Lengths(kind="lognormal", mean=100, stdev=50),
        prefixes=Prefixes(count=5, tokens=9, share=0.3),
        sessions=Sessions(turns=3, think_s=1.0),
    )
    assert planned(workload, seed, 40)[:count] == planned(workload, seed, count)
    assert math.isfinite(cached_share(planned(workload, seed, count), 9))
