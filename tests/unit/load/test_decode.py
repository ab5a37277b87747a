"""Records out of what servers send: the definition cases, and every way to fail."""

import json

import pytest
from fakeserver import Script, serving
from hypothesis import given
from hypothesis import strategies as st

from servesmith.load.client import ask
from servesmith.load.decode import Turn, decode
from servesmith.load.wire import Exchange
from servesmith.measure.records import ChunkKind

FAST = {"ttft_s": 0.0, "gap_s": 0.0}
CHAT = b'{"stream":true}'
ROLE, CONTENT, REASONING, TOOL, USAGE, OTHER = (int(kind) for kind in ChunkKind)


def one(script: Script, path: str = "/v1/chat/completions"):
    with serving(script) as server:
        return ask(server.url, [CHAT], 1, path=path)[0]


def of_events(*events: object, meant: int = 0, count_text=None, complete: bool = True, done: bool = True):
    return decode([turn(*events, meant=meant, complete=complete, done=done)], count_text=count_text, keep_text=True)[0]


def turn(*events: object, meant: int = 0, complete: bool = True, done: bool = True) -> Turn:
    """A response of which event number n arrived at n ms."""
    exchange = Exchange(b"", 10_000_000)
    exchange.sent_ns = 1
    exchange.receive(1, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in events] + [b"[DONE]"] * done
    for number, line in enumerate(lines):
        exchange.receive(number * 1_000_000, b"data: " + line + b"\n\n")
    exchange.close(len(lines) * 1_000_000, "" if complete else "cancelled")
    return Turn(exchange, 0, output_tokens=meant)


def token(text: str, **more: object) -> dict:
    return {"choices": [{"delta": {"content": text}, **more}]}


def end(finish: str = "length") -> dict:
    return {"choices": [{"delta": {}, "finish_reason": finish}]}


def usage(prompt: int, output: int) -> dict:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}}


def test_a_role_chunk_is_not_a_token():
    record = one(Script(ttft_s=0.05, gap_s=0, tokens=3))
    assert record.chunk_kinds == (ROLE, CONTENT, CONTENT, CONTENT, OTHER, USAGE)
    assert record.first_token_ns == record.chunk_ns[1] > record.chunk_ns[0] + 20_000_000
    assert (record.token_source, record.output_tokens, record.prompt_tokens, record.cached_tokens) == (
        "one-per-chunk", 3, 16, 2,
    )  # fmt: skip
    assert record.text == " t0 t1 t2" and record.finish == "length" and record.stamp_source == "kernel"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_framing_and_line_ends_do_not_matter(framing, newline):
    record = one(Script(**FAST, framing=framing, newline=newline, pings=True, split_writes=True, tokens=4))
    assert (record.error, record.text, record.output_tokens) == ("", " t0 t1 t2 t3", 4)


def test_reasoning_sets_the_first_token_and_is_not_the_text():
    record = one(Script(**FAST, reasoning=2, tokens=4, role_early=False))
    assert record.chunk_kinds == (REASONING, REASONING, CONTENT, CONTENT, OTHER, USAGE)
    assert record.text == " t2 t3" and record.output_tokens == 4 and sum(record.chunk_tokens) == 4


def test_several_tokens_a_chunk_from_ids():
    record = one(Script(**FAST, per_chunk=4, tokens=10, ids=True, role_early=False))
    assert (record.token_source, record.chunk_tokens) == ("ids", (4, 4, 2, 0, 0))


def test_several_tokens_a_chunk_from_a_running_usage():
    record = one(Script(**FAST, per_chunk=4, tokens=10, usage="continuous", role_early=False))
    assert (record.token_source, record.chunk_tokens) == ("usage", (4, 4, 2, 0, 0))


def test_several_tokens_a_chunk_are_recounted_and_scaled_to_the_usage():
    events = [token("aa"), token("bbbb"), end(), usage(5, 12)]
    assert of_events(*events, count_text=len).chunk_tokens == (4, 8, 0, 0)
    assert of_events(*events, count_text=len).token_source == "retokenised"
    unknown = of_events(*events)
    assert (unknown.token_source, unknown.chunk_tokens, unknown.output_tokens) == ("none", (0, 0, 0, 0), 12)


def test_completions_without_chat():
    record = one(Script(**FAST, tokens=3), path="/v1/completions")
    assert (record.text, record.output_tokens, record.chunk_kinds[:3]) == (" t0 t1 t2", 3, (CONTENT,) * 3)


def test_llama_cpp_running_count_with_characters_of_several_tokens():
    def piece(text, n, **more):
        return {"choices": [{"text": text, "finish_reason": None, **more}], "timings": {"predicted_n": n}}

    record = of_events(piece("x", 1), piece("\N{ROCKET}", 4), piece("", 5, finish_reason="length") | usage(9, 5) | {
        "choices": [{"text": "", "finish_reason": "length"}]}, meant=5)  # fmt: skip
    assert (record.error, record.token_source, record.chunk_tokens) == ("", "usage", (1, 3, 1))


def test_a_final_usage_that_comes_with_the_end_is_no_token():
    last = {"choices": [{"text": "", "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    record = of_events({"choices": [{"text": "a"}]}, {"choices": [{"text": "b"}]}, last)
    assert (record.chunk_kinds, record.token_source) == ((CONTENT, CONTENT, USAGE), "one-per-chunk")


def test_an_empty_chunk_whose_running_count_rises_carries_a_token():
    events = [{**token("", role="x"), "usage": {"prompt_tokens": 1, "completion_tokens": n}} for n in (0, 1)]
    record = of_events(
        *events, {**token("é"), "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, end(), usage(1, 2)
    )
    assert record.chunk_kinds[:3] == (USAGE, CONTENT, CONTENT) and record.chunk_tokens == (0, 1, 1, 0, 0)


def test_tool_calls():
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}
    record = of_events({"choices": [{"delta": {"role": "assistant", "content": None}}]}, call, end("tool_calls"))
    assert record.chunk_kinds == (ROLE, TOOL, OTHER) and record.first_token_ns == 1_000_000


def test_missing_usage_is_known_as_unknown():
    record = one(Script(**FAST, usage="none", tokens=3))
    assert (record.error, record.output_tokens, record.token_source, record.prompt_tokens) == ("", -1, "none", -1)
    assert of_events(token("abc"), end(), count_text=len).output_tokens == 3


def test_a_cut_off_request_is_counted_as_the_whole_ones_showed():
    whole = turn(token("a"), token("b"), end(), usage(1, 2))
    scaled = turn(token("aa"), token("bb"), end(), usage(1, 8))
    part = turn(token("aaa"), token("b"), complete=False, done=False)
    assert decode([whole, part])[1].chunk_tokens == (1, 1)
    assert decode([whole, part])[1].token_source == "one-per-chunk"
    assert decode([scaled, part], count_text=len)[1].chunk_tokens == (6, 2)
    assert decode([scaled, part])[1].token_source == "none"


@pytest.mark.parametrize(
    ("script", "error", "detail"),
    [
        (Script(**FAST, status=500, body=b'{"error":"boom"}'), "http-status", 'HTTP 500; {"error":"boom"}'),
        (Script(**FAST, status=503), "http-status", "HTTP 503"),
        (Script(**FAST, body=b"<html>hello</html>", content_type="text/html"), "malformed", "text/html"),
        (Script(**FAST, body=b"data: {nonsense\n\ndata: [DONE]\n\n"), "malformed", "{nonsense"),
        (Script(**FAST, body=b'data: {"choices":7}\n\ndata: [DONE]\n\n'), "malformed", "choices"),
        (Script(**FAST, body=b"data: \xff\xfe\n\n"), "malformed", ""),
        (Script(**FAST, body=b""), "cut", "without a finish_reason"),
        (Script(**FAST, body=b"event: error\ndata: no blocks\n\n"), "server-error-event", "no blocks"),
        (Script(**FAST, event_error_after=2), "server-error-event", "out of blocks"),
        (Script(**FAST, event_error_after=2, cut_after=3), "server-error-event", "out of blocks"),
        (Script(**FAST, cut_after=3), "cut", "bytes"),
    ],
)
def test_every_failure_is_a_record_of_its_class(script, error, detail):
    record = one(script)
    assert record.error == error and detail in record.detail


def test_compression_is_refused():
    exchange = Exchange(b"", 1000)
    exchange.receive(1, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")
    exchange.close(2)
    assert decode([Turn(exchange, 0)])[0].error == "malformed"


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([token("a"), token("b"), end("length"), usage(1, 2)], ""),
        ([token("a"), token("b"), end("stop"), usage(1, 2)], ""),
        ([token("a"), end("stop"), usage(1, 1)], "short-output"),
        ([token("a"), end("length"), usage(1, 1)], "short-output"),
        ([token("a"), end("stop")], "short-output"),
        ([token("a"), end("length")], ""),
        ([end("stop")], "short-output"),
    ],
)
def test_output_shorter_than_meant(events, error):
    assert of_events(*events, meant=2).error == error
    assert of_events(*events, meant=0).error == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "content", "usage", "completion_tokens", "error", "timings", "text"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON | st.binary(max_size=20).filter(lambda raw: b"\n" not in raw and b"\r" not in raw), max_size=6))
def test_no_events_crash_it(events):
    record = of_events(*events, count_text=len)
    assert len(record.chunk_ns) == len(record.chunk_tokens) == len(record.chunk_kinds)
