"""Large sets are counted by their words, and come out as if each prompt had been counted."""

import json

import pytest
from servertokens import GluedTokenizer, StartTokenizer, WordTokenizer

from servesmith.errors import InputError
from servesmith.recipe.model import Lengths, Prefixes, Sessions, Workload
from servesmith.workload.synthetic import CALIBRATE_FROM, build, build_set

MANY = CALIBRATE_FROM
WORKLOADS = {
    "fixed": Workload(prompt_tokens=60),
    "text": Workload(api="completions", prompt_tokens=60),
    "lengths": Workload(prompt_lengths=Lengths(kind="uniform", low=40, high=90)),
    "prefixes": Workload(prompt_tokens=80, prefixes=Prefixes(count=3, tokens=30, share=0.5)),
    "sessions": Workload(prompt_tokens=40, output_tokens=9, sessions=Sessions(turns=4, question_tokens=20)),
    "text-sessions": Workload(
        api="completions", prompt_tokens=40, output_tokens=9, sessions=Sessions(turns=4, question_tokens=20)
    ),
}


def length_of(prompt, tokenizer) -> int:
    body = json.loads(prompt.body)
    return tokenizer.count_messages(body["messages"]) if "messages" in body else tokenizer.count_text(body["prompt"])


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("tokenizer", [WordTokenizer("e"), StartTokenizer("e")], ids=["plain", "start"])
def test_a_large_set_is_exact_and_begins_with_the_small_one(name, tokenizer):
    workload = WORKLOADS[name]
    made = build_set(workload, tokenizer, 3, MANY)
    assert made.counted == 200
    assert all(length_of(prompt, tokenizer) == prompt.prompt_tokens for prompt in made.prompts)
    assert made.prompts[:50] == build(workload, tokenizer, 3, 50)


def test_few_calls_for_many_prompts():
    tokenizer = StartTokenizer("e")
    assert len(build(Workload(prompt_tokens=64), tokenizer, 1, 10_000)) == 10_000
    assert tokenizer.calls < 1_500  # each word alone at a start, the words of two tokens, and the sample


def test_words_that_do_not_add_up_are_found_and_every_prompt_is_counted():
    tokenizer = GluedTokenizer()
    made = build_set(Workload(prompt_tokens=64), tokenizer, 1, MANY)
    assert made.counted == MANY
    assert all(length_of(prompt, tokenizer) == 64 for prompt in made.prompts)


def test_a_large_set_that_is_too_short_says_the_minimum():
    with pytest.raises(InputError, match="Set prompt_tokens to 24 or more"):
        build(Workload(prompt_tokens=23), WordTokenizer(), 1, MANY)
