"""What single messages become. That the shortcut for like chunks changes nothing is shown by the fuzzing."""

import json

import pytest

from servesmith.load import events as module
from servesmith.load.events import read_events
from servesmith.load.sse import Events
from servesmith.measure.records import ChunkKind


def read(*documents):
    data = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    return read_events(Events([""] * len(data), data, range(len(data))), range(len(data)))


def chunk(text, **more):
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


@pytest.mark.parametrize(
    "document",
    [
        b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"choices":[{"delta":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}]}",
    ],
)
def test_a_message_nested_too_deeply_is_malformed_and_no_crash(document):
    stream = read(chunk(" a"), document, chunk(" b"))
    assert stream.error == "malformed"
    assert stream.texts == [" a", "", " b"]


@pytest.mark.parametrize("count", [-2, 2**53 + 1, 10**25, 10**400])
def test_a_count_that_no_column_holds_is_malformed(count):
    for counted in ({"usage": {"completion_tokens": count}}, {"timings": {"predicted_n": count}},
                    {"usage": {"prompt_tokens_details": {"cached_tokens": count}}}):  # fmt: skip
        stream = read(chunk(" a", **counted))
        assert stream.error == "malformed"
        assert stream.usage.completion_tokens == -1


def usage(count):
    return {"usage": {"prompt_tokens": 7, "total_tokens": 7 + count, "completion_tokens": count}}


def timings(count):
    return {"timings": {"prompt_n": 7, "predicted_n": count, "predicted_ms": count / 7}}


@pytest.mark.parametrize("counted", [usage, timings])
def test_chunks_that_count_are_decoded_once_and_then_recognised(counted, monkeypatch):
    whole = []
    take = module._take
    monkeypatch.setattr(module, "_take", lambda *given: whole.append(1) or take(*given))
    stream = read(*(chunk(f" word {number}", **counted(number)) for number in range(1, 101)))
    assert len(whole) == 1
    assert stream.running == list(range(1, 101))
    assert stream.kinds == [ChunkKind.CONTENT] * 100
    assert stream.texts == [f" word {number}" for number in range(1, 101)]
    assert stream.counted == 100
    assert stream.usage.completion_tokens == (100 if counted is usage else -1)


def test_a_text_with_an_escape_does_not_end_what_is_known_of_the_others(monkeypatch):
    whole = []
    take = module._take
    monkeypatch.setattr(module, "_take", lambda *given: whole.append(1) or take(*given))
    stream = read(*(chunk(text) for text in (" a", " b", '"', " c", "\n", " d")))
    assert len(whole) == 3
    assert stream.texts == [" a", " b", '"', " c", "\n", " d"]


def test_the_chunk_that_ends_a_stream_is_never_taken_for_a_like_one():
    end = chunk(" c")
    end["choices"][0]["finish_reason"] = "length"
    stream = read(chunk(" a"), chunk(" b"), end, b"[DONE]")
    assert (stream.finish, stream.done, len(stream.kinds)) == ("length", True, 3)
    assert stream.ids == stream.running == [-1, -1, -1]
