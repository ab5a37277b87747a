"""A short form of `make fuzz`, and proof that it would see what it looks for."""

import pytest
from fuzz_judge import Difference, judge
from fuzz_streams import Case, case

from servesmith.load import events, http1, sse

CASES = 3000
BATCH = 500


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_the_decoders_say_what_slow_ones_say(first):
    for seed in range(first, first + BATCH):
        try:
            judge(case(seed))
        except Difference as found:
            pytest.fail(f"seed {seed}: {found}")


def finds_something(cases: int = 3000) -> bool:
    for seed in range(cases):
        try:
            judge(case(seed))
        except (Difference, AssertionError, ValueError, TypeError, RecursionError):
            return True
    return False


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (events, "_proved", lambda *_: True),
        (events, "_plain_text", lambda raw: raw.decode("utf-8", "replace")),
        (events, "_NO_MESSAGE", (events.msgspec.DecodeError, UnicodeDecodeError)),
        (sse, "_BETWEEN", b"\n\ndata:"),
        (sse, "_BOM", b"\xef\xbb"),
        (http1, "_size", lambda line: int(line.partition(b";")[0], 16)),
        (http1, "_HEX", b"0123456789abcdef"),
    ],
)
def test_a_planted_fault_is_found(monkeypatch, place, name, wrong):
    monkeypatch.setattr(place, name, wrong)
    assert finds_something()


def test_the_same_seed_gives_the_same_case():
    assert [case(seed) for seed in range(50)] == [case(seed) for seed in range(50)]


def test_cases_are_of_every_kind():
    made = [case(seed) for seed in range(400)]
    assert {each.kind for each in made} == {f"{a} messages, {b} response" for a in ("whole", "broken")
                                           for b in ("whole", "broken")}  # fmt: skip
    for needed in (b"reasoning_content", b"tool_calls", b"timings", b"usage", b": ping", b"100 Continue", b"X-Time",
                   b"\\u0", b"event: error", b";a=b", b"[DONE]", b"\r\r"):  # fmt: skip
        assert any(needed in each.raw for each in made), needed
    assert any(len(each.reads) == len(each.raw) for each in made), "byte by byte"
    assert any(len(each.reads) == 1 for each in made), "in one read"


def test_one_large_chunk_byte_by_byte_takes_no_quadratic_time():
    """200,000 reads of one byte: each may look only at the last few bytes."""
    body = b"data: " + b"x" * 200_000 + b"\n\n"
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    judge(Case(tuple(raw[at : at + 1] for at in range(len(raw))), "large"))
