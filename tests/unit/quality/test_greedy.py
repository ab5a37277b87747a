import msgspec
import pytest
from oracle import record

from servesmith.errors import EvidenceError
from servesmith.quality.greedy import MAX_TOKENS, agreement, greedy_answers, greedy_prompts
from servesmith.store.events import GreedyAgreement


def test_prompts_are_distinct_and_hang_on_the_seed():
    assert greedy_prompts(4, 16) == greedy_prompts(4, 16)
    assert greedy_prompts(4, 16) != greedy_prompts(5, 16)
    assert len(set(greedy_prompts(4, 72))) == 72


def test_one_at_a_time_and_failures_are_none():
    calls = []

    def ask(bodies, concurrency):
        calls.append(concurrency)
        bodies = [msgspec.json.decode(body) for body in bodies]
        assert all(body["temperature"] == 0 and body["max_tokens"] == MAX_TOKENS for body in bodies)
        return [
            record(0, bodies[0]["messages"][0]["content"]),
            record(1, "half an ans", error="cut"),
        ]

    assert greedy_answers(("hello", "you"), "m", ask) == ("hello", None)
    assert calls == [1]


def test_agreement_counts_identical_texts_and_never_a_failure():
    a = ("one", "two", None, "four")
    assert agreement(a, ("one", "2", None, "four"), ("one", "two", "three", "four")) == GreedyAgreement(
        prompts=4, identical=2, floor=3
    )


def test_agreement_refuses_other_lengths():
    with pytest.raises(EvidenceError, match="not of the same prompts"):
        agreement(("a",), ("a", "b"), ("a",))
