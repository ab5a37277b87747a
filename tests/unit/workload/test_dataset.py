"""Prompts out of files."""

import json

import pytest
from servertokens import WordTokenizer

from servesmith.errors import InputError
from servesmith.recipe.model import Dataset, Lengths, Workload
from servesmith.workload.dataset import read_items
from servesmith.workload.synthetic import build_set

CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is it"}]


def made(tmp_path, text, count, *, seed=1, shuffle=False, **fields):
    path = tmp_path / "data"
    path.write_text(text)
    return build_set(Workload(dataset=Dataset(path=str(path), shuffle=shuffle), **fields), WordTokenizer(), seed, count)


def lines(*items):
    return "\n".join(map(json.dumps, items)) + "\n\n"


def bodies(result):
    return [json.loads(prompt.body) for prompt in result.prompts]


def test_jsonl_prompts_and_chats(tmp_path):
    text = lines({"prompt": "one two", "output_tokens": 7}, {"messages": CHAT, "id": 3})
    result = made(tmp_path, text, 2, output_tokens=30)
    first, second = bodies(result)
    assert first["messages"] == [{"role": "user", "content": "one two"}] and second["messages"] == CHAT
    assert [prompt.prompt_tokens for prompt in result.prompts] == [21 + 2, 21 + 5 + 5]
    assert [body["max_tokens"] for body in (first, second)] == [7, 30]
    assert (result.counted, result.cached_share, result.notes) == (2, 0.0, ())


def test_texts_can_be_completed_and_chats_cannot(tmp_path):
    result = made(tmp_path, lines({"prompt": "one two"}), 1, api="completions")
    assert bodies(result)[0]["prompt"] == "one two" and result.prompts[0].prompt_tokens == 3
    with pytest.raises(InputError, match="Set api: chat"):
        made(tmp_path, lines({"prompt": "one"}, {"messages": CHAT}), 1, api="completions")


def test_prompts_begin_again_and_it_is_said(tmp_path):
    texts = [f"prompt number {n}" for n in range(4)]
    result = made(tmp_path, lines(*({"prompt": text} for text in texts)), 10, shuffle=True)
    asked = [body["messages"][0]["content"] for body in bodies(result)]
    assert sorted(asked[:4]) == sorted(asked[4:8]) == texts
    assert result.notes[0].startswith("6 of 10 prompts repeat one of the file's 4")
    assert (result.counted, result.cached_share) == (4, 0.6)


def test_the_order_follows_from_the_seed(tmp_path):
    text = lines(*({"prompt": f"prompt {n}"} for n in range(20)))
    one, same, other, filed = (
        [p.body for p in made(tmp_path, text, 20, seed=seed, shuffle=shuffle).prompts]
        for seed, shuffle in ((1, True), (1, True), (2, True), (1, False))
    )
    assert one == same and one != other and sorted(one) == sorted(filed)
    assert [json.loads(body)["messages"][0]["content"] for body in filed] == [f"prompt {n}" for n in range(20)]
    assert [p.body for p in made(tmp_path, text, 5, shuffle=True).prompts] == one[:5]


def talk(*turns):
    return {"id": "x", "conversations": [{"from": who, "value": what} for who, what in turns]}


def test_sharegpt_asks_the_first_question_and_wants_an_answer_of_the_recorded_length(tmp_path):
    talks = [
        talk(("human", "what is one"), ("gpt", "it is a small number"), ("human", "and two")),
        talk(("system", "be kind"), ("user", "hello"), ("chatgpt", "yes")),
        talk(("gpt", "an answer first"), ("human", "why")),
        talk(("human", "no answer")),
        talk(("human", " "), ("gpt", "to nothing")),
        {"conversations": []},
    ]
    result = made(tmp_path, json.dumps(talks), 2)
    assert [body["messages"][0]["content"] for body in bodies(result)] == ["what is one", "hello"]
    assert [prompt.output_tokens for prompt in result.prompts] == [5, 1]
    assert result.notes == ("4 of 6 conversations do not begin with a question and its answer: left out",)


def test_lengths_without_one_of_their_own_are_drawn(tmp_path):
    text = lines({"prompt": "a"}, {"prompt": "b", "output_tokens": 3})
    result = made(tmp_path, text, 2, output_lengths=Lengths(kind="fixed", tokens=11))
    assert [prompt.output_tokens for prompt in result.prompts] == [11, 3]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"prompt": "a"}\n{oops', 2, "Is no request"),
        ('{"prompt": 3}', 1, "Is no request"),
        ('{"text": "a"}', 1, "Has neither"),
        ('{"prompt": ""}', 1, "Has neither"),
        ('{"prompt": "a", "messages": [{"role": "user"}]}', 1, "Has both"),
        ('{"prompt": "a", "output_tokens": -1}', 1, "negative"),
        ("", 0, "Has no request in it"),
        ("[]", 0, "Has no request in it"),
        ('[{"conversations": 3}]', 0, "Is no ShareGPT file"),
    ],
)
def test_malformed_files_are_refused_with_their_place(tmp_path, text, line, words):
    path = tmp_path / "data"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_items(Dataset(path=str(path)))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(path), line) and words in problem.message and problem.remedy


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="Check the path"):
        read_items(Dataset(path=str(tmp_path / "nowhere")))
