"""InferenceX's lengths: every total that its client would have sent."""

import json

import pytest
from servertokens import WordTokenizer
from shareddata import shared_data

from servesmith.recipe.model import InferenceX, Workload
from servesmith.workload.inferencex import lengths
from servesmith.workload.lengths import mean_output_tokens
from servesmith.workload.synthetic import build_set

LONGEST = {"1k1k": (1024, 1024), "8k1k": (8192, 1024)}


def noun(shape, prompts):
    longest, answer = LONGEST[shape]
    return InferenceX(input_tokens=longest, output_tokens=answer, prompts=prompts)


def test_totals_of_every_entry_are_equal():
    entries = json.loads(shared_data("inferencex/inferencex_expected_tokens.json").read_text())
    assert len(entries) == 22
    for name, entry in entries.items():
        shape, _, streams = name.partition("_conc")
        assert entry["num_prompts"] == 10 * int(streams)
        inputs, outputs = lengths(noun(shape, entry["num_prompts"]))
        found = {
            "num_prompts": len(inputs),
            "sum_input": sum(inputs),
            "sum_output": sum(outputs),
            "min_in": min(inputs),
            "max_in": max(inputs),
            "min_out": min(outputs),
            "max_out": max(outputs),
            "first_request": [inputs[0], outputs[0]],
        }
        assert {key: entry[key] for key in found} == found, name


@pytest.mark.parametrize(("shape", "totals"), [("1k1k", (590_227, 589_961)), ("8k1k", (4_727_544, 589_927))])
def test_totals_at_64_streams(shape, totals):
    assert tuple(map(sum, lengths(noun(shape, 640)))) == totals


def test_prompts_have_these_lengths_whatever_the_seed():
    workload = Workload(api="completions", inferencex=noun("1k1k", 20))
    tokenizer = WordTokenizer("e")
    inputs, outputs = lengths(noun("1k1k", 20))
    for seed in (1, 2):
        made = build_set(workload, tokenizer, seed, 30)
        assert [p.prompt_tokens for p in made.prompts] == [*inputs, *inputs[:10]]
        assert [json.loads(p.body)["max_tokens"] for p in made.prompts] == [*outputs, *outputs[:10]]
        assert all(tokenizer.count_text(json.loads(p.body)["prompt"]) == p.prompt_tokens for p in made.prompts)
        assert made.notes == ("InferenceX sends 20 requests; their lengths were repeated for 30",)
        assert len({p.body for p in made.prompts}) == 30
    assert mean_output_tokens(workload) == sum(outputs) / 20
