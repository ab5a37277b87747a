"""Exact lengths with tokenizers of several kinds, none of them the simple one."""

import json
from itertools import combinations

import pytest
from servertokens import GluedTokenizer, StartTokenizer, WordTokenizer

from servesmith.errors import InputError
from servesmith.recipe.model import Workload
from servesmith.workload.synthetic import NONCE, build
from servesmith.workload.words import WORDS


def text_of(prompt) -> str:
    body = json.loads(prompt.body)
    return body["messages"][0]["content"] if "messages" in body else body["prompt"]


@pytest.mark.parametrize(
    "tokenizer", [WordTokenizer(), WordTokenizer("e"), WordTokenizer("e", bos=0), StartTokenizer("s"), GluedTokenizer()]
)
@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("length", [40, 64, 301])
def test_every_prompt_has_exactly_the_asked_length(tokenizer, api, length):
    prompts = build(Workload(api=api, prompt_tokens=length, output_tokens=9), tokenizer, 1, 20)
    count = tokenizer.count_chat if api == "chat" else tokenizer.count_text
    assert [count(text_of(prompt)) for prompt in prompts] == [length] * 20
    assert [(p.index, p.prompt_tokens, p.output_tokens) for p in prompts] == [(n, length, 9) for n in range(20)]
    assert {p.path for p in prompts} == {"/v1/chat/completions" if api == "chat" else "/v1/completions"}


def test_equal_seeds_give_equal_bytes_and_others_do_not():
    one, same, other = (build(Workload(), WordTokenizer(), seed, 10) for seed in (1, 1, 2))
    assert one == same and not {p.body for p in one} & {p.body for p in other}
    assert one == build(Workload(), WordTokenizer(), 1, 30)[:10]


def test_no_two_prompts_begin_alike():
    prompts = build(Workload(prompt_tokens=30), WordTokenizer(), 3, 1000)
    starts = {tuple(text_of(p).split()[:NONCE]) for p in prompts}
    assert len(starts) == 1000
    first = [text_of(p).split()[0] for p in prompts[: len(WORDS)]]
    assert len(set(first)) == len(first)  # neighbours differ in the very first word


def test_a_shared_prefix_is_shared_exactly_and_what_follows_is_not():
    tokenizer = WordTokenizer("e")
    prompts = build(Workload(api="completions", prompt_tokens=80, shared_prefix_tokens=40), tokenizer, 5, 30)
    words = [text_of(prompt).split() for prompt in prompts]
    for a, b in combinations(words[:8], 2):
        shared = next(n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        assert tokenizer.count_text(" ".join(a[:shared])) - 1 == 40
    assert {tokenizer.count_text(text_of(p)) for p in prompts} == {80}


def test_few_calls_of_the_tokenizer():
    tokenizer = WordTokenizer()
    build(Workload(prompt_tokens=2000), tokenizer, 1, 50)
    assert tokenizer.calls <= 55


@pytest.mark.parametrize(("fields", "least"), [({}, 24), ({"shared_prefix_tokens": 10}, 34)])
def test_too_small_says_the_minimum(fields, least):
    with pytest.raises(InputError, match=f"Set prompt_tokens to {least} or more"):
        build(Workload(prompt_tokens=least - 1, **fields), WordTokenizer(), 1, 1)
    build(Workload(prompt_tokens=least, **fields), WordTokenizer(), 1, 1)


def test_a_length_that_cannot_be_met_is_an_input_error():
    class Even(WordTokenizer):
        def _length(self, text: str) -> int:
            return 2 * len(text.split())

    with pytest.raises(InputError, match="exactly 64"):
        build(Workload(prompt_tokens=64), Even(), 1, 1)  # the frame of 21 makes every length odd
    build(Workload(prompt_tokens=65), Even(), 1, 1)


def test_ids():
    workload = Workload(api="completions", text="ids", prompt_tokens=50, shared_prefix_tokens=7)
    prompts = build(workload, WordTokenizer(), 2, 40)
    known = set(WordTokenizer().tokenize(" ".join(WORDS)))
    contents = [json.loads(prompt.body)["prompt"] for prompt in prompts]
    assert {len(ids) for ids in contents} == {50} and len({tuple(ids[:7]) for ids in contents}) == 1
    assert len({tuple(ids[7:10]) for ids in contents}) == 40
    assert len({token for ids in contents for token in ids} & known) > 50
    assert prompts == build(workload, WordTokenizer(), 2, 40)
    with pytest.raises(InputError, match="api: completions"):
        build(Workload(text="ids"), WordTokenizer(), 2, 1)
    with pytest.raises(InputError, match="10 or more"):
        build(Workload(api="completions", text="ids", prompt_tokens=9, shared_prefix_tokens=7), WordTokenizer(), 2, 1)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("openai", {"ignore_eos": True, "stream_options": {"include_usage": True}}),
        ("llamacpp", {"ignore_eos": True, "timings_per_token": True}),
        ("vllm", {"min_tokens": 64, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    ],
)
def test_bodies_force_the_output_length(server, expected):
    body = json.loads(build(Workload(), WordTokenizer(), 1, 1, model="m", server=server)[0].body)
    assert body.items() >= ({"model": "m", "max_tokens": 64, "temperature": 0.0, "stream": True} | expected).items()
    assert ("min_tokens" in body) == (server == "vllm")


def test_extra_fields_replace_ours_and_null_takes_them_away():
    workload = Workload(extra={"ignore_eos": None, "top_k": 1, "temperature": 0.7})
    body = json.loads(build(workload, WordTokenizer(), 1, 1)[0].body)
    assert "ignore_eos" not in body and "model" not in body and (body["top_k"], body["temperature"]) == (1, 0.7)
