"""Prompts for the rows of a trace: exact lengths, and the sharing that was recorded."""

import json

import pytest
from servertokens import WordTokenizer
from shareddata import shared_data

from servesmith.errors import InputError
from servesmith.recipe.model import Workload
from servesmith.workload.synthetic import build_rows
from servesmith.workload.traces import Trace, TraceRow, read_trace, window

IDS = Workload(api="completions", text="ids")


def ids_of(made):
    return [json.loads(prompt.body)["prompt"] for prompt in made.prompts]


def test_blocks_that_rows_share_become_equal_ids():
    rows = (TraceRow(0, 40, 3, (5, 6, 7)), TraceRow(1, 33, 1, (5, 6, 8)), TraceRow(2, 16, 9, (6,)))
    made = build_rows(IDS, WordTokenizer(), 1, Trace(rows, "timed", 16))
    first, second, third = ids_of(made)
    assert [len(ids) for ids in (first, second, third)] == [40, 33, 16]
    assert first[:32] == second[:32] and first[32:33] != second[32:33] and third == first[16:32]
    assert [json.loads(p.body)["max_tokens"] for p in made.prompts] == [3, 1, 9]
    assert made.cached_share == 32 / 89
    other = ids_of(build_rows(IDS, WordTokenizer(), 2, Trace(rows, "timed", 16)))
    assert other[0][:16] != first[:16]


def test_mooncake_prefixes_are_as_long_as_its_blocks_say():
    whole = read_trace(shared_data("traces/mooncake_conversation_first1000.jsonl"))
    part = window(whole, 0, 12)
    made = build_rows(IDS, WordTokenizer(), 1, part)
    prompts = ids_of(made)
    assert [len(ids) for ids in prompts] == [row.prompt_tokens for row in part.rows]
    cached = 0
    for place, (row, ids) in enumerate(zip(part.rows, prompts, strict=True)):
        best = 0
        for other, theirs in zip(part.rows[:place], prompts[:place], strict=True):
            blocks = 0
            while row.hash_ids[: blocks + 1] == other.hash_ids[: blocks + 1] and blocks < len(row.hash_ids):
                blocks += 1
            tokens = min(512 * blocks, len(ids), len(theirs))
            assert ids[:tokens] == theirs[:tokens]
            assert ids[tokens : tokens + 12] != theirs[tokens : tokens + 12] or tokens == min(len(ids), len(theirs))
            best = max(best, tokens)
        cached += best
    assert made.cached_share == pytest.approx(cached / sum(map(len, prompts)))
    assert made.cached_share > 0.03


def test_rows_without_blocks_begin_uniquely_however_short_they_are():
    rows = tuple(TraceRow(n, 1 + n % 5, 1) for n in range(20))
    prompts = ids_of(build_rows(IDS, WordTokenizer(), 1, Trace(rows, "azure")))
    assert [len(ids) for ids in prompts] == [1 + n % 5 for n in range(20)]
    assert len({ids[0] for ids in prompts}) == 20


def test_words_have_the_lengths_but_not_the_blocks():
    rows = (TraceRow(0, 60, 3, (1, 2, 3, 4)), TraceRow(1, 50, 1, (1, 2, 3, 5)))
    tokenizer = WordTokenizer("e")
    made = build_rows(Workload(), tokenizer, 1, Trace(rows, "timed", 16))
    texts = [json.loads(p.body)["messages"][0]["content"] for p in made.prompts]
    assert [tokenizer.count_chat(text) for text in texts] == [60, 50]
    assert made.notes == ("the trace's shared prefixes were not rebuilt: that takes text: ids",)


def test_a_row_that_words_cannot_be_short_enough_for_says_so():
    with pytest.raises(InputError, match=r"Row 2 of the trace: 6 prompt tokens are too few.*text: ids"):
        build_rows(Workload(), WordTokenizer(), 1, Trace((TraceRow(0, 60, 3), TraceRow(1, 6, 1)), "azure"))
