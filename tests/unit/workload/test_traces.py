"""Readers of traces against what the files themselves say, counted here with other means."""

import csv
import json
import math
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shareddata import shared_data

from servesmith.errors import InputError
from servesmith.workload.traces import Trace, TraceRow, read_trace, window

S = 1_000_000_000
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST_1 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BURST_2 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def read(tmp_path, text, kind="auto", name="trace"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_trace(path, kind)


def rows_of(trace):
    return [(row.offset_ns, row.prompt_tokens, row.output_tokens) for row in trace.rows]


@pytest.mark.parametrize("name", ["azure_code_2023_first2000.csv", "azure_conv_2023_first2000.csv"])
def test_azure_rows_are_those_of_the_file(name):
    path = shared_data(f"traces/{name}")
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))

    def exactly(text):
        whole, _, fraction = text.partition(".")
        since = datetime.fromisoformat(whole) - datetime.fromisoformat("2023-11-16")
        return int((Decimal(since.days * 86400 + since.seconds) + Decimal(f"0.{fraction}")) * S)

    first = exactly(lines[0]["TIMESTAMP"])
    trace = read_trace(path)
    assert (trace.format, trace.notes, len(trace.rows)) == ("azure", (), 2000)
    assert rows_of(trace) == [
        (exactly(line["TIMESTAMP"]) - first, int(line["ContextTokens"]), int(line["GeneratedTokens"])) for line in lines
    ]
    assert trace.span_ns == {"azure_code": 853_079_347_000, "azure_conv": 424_259_457_000}[name[:10]]


def test_mooncake_rows_are_those_of_the_file():
    path = shared_data("traces/mooncake_conversation_first1000.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    trace = read_trace(path)
    assert (trace.format, trace.block_tokens, trace.notes, trace.span_ns) == ("mooncake", 512, (), 330 * S)
    assert rows_of(trace) == [
        (line["timestamp"] * 1_000_000, line["input_length"], line["output_length"]) for line in lines
    ]
    assert [list(row.hash_ids) for row in trace.rows] == [line["hash_ids"] for line in lines]
    assert all(len(row.hash_ids) == math.ceil(row.prompt_tokens / 512) for row in trace.rows)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_burstgpt_in_both_of_its_forms(tmp_path, ends):
    old = read(
        tmp_path, (BURST_1 + "5,ChatGPT,472,18,490,API log\n45.25,GPT-4,100,7,107,API log\n").replace("\n", ends)
    )
    assert (old.format, rows_of(old)) == ("burstgpt", [(0, 472, 18), (40_250_000_000, 100, 7)])
    new = read(tmp_path, BURST_2 + "19440110.0,abc,43,GPT-4,906,446,1352,Conversation log\n")
    assert rows_of(new) == [(0, 906, 446)] and new.rows[0].session == "abc"


def test_failed_requests_are_left_out_and_said(tmp_path):
    trace = read(tmp_path, BURST_1 + "5,ChatGPT,9,0,9,API log\n8,ChatGPT,9,3,12,API log\n9,ChatGPT,0,3,3,API log\n")
    assert rows_of(trace) == [(3 * S, 9, 3)]  # time still runs from the first row
    assert trace.notes == ("2 of 3 rows have no prompt or no output token: left out",)


def test_unsorted_rows_are_sorted_and_said(tmp_path):
    trace = read(tmp_path, AZURE + "2024-05-10 00:00:03+00:00,3,1\n2024-05-10 00:00:01Z,1,1\n2024-05-10T00:00:02,2,1\n")
    assert rows_of(trace) == [(0, 1, 1), (S, 2, 1), (2 * S, 3, 1)]
    assert trace.notes == ("1 rows were earlier than the row before them: the trace was sorted by time",)


def test_azure_keeps_every_digit(tmp_path):
    trace = read(tmp_path, AZURE + "2023-11-16 18:17:03.9799600,1,1\n2023-11-16 18:17:04.0000001,1,1\n")
    assert trace.rows[1].offset_ns == 20_040_100


def line(**fields):
    return json.dumps({"timestamp": 1, "input_length": 40, "output_length": 2, **fields}) + "\n"


def test_the_two_json_formats_are_told_apart_by_their_blocks(tmp_path):
    assert read(tmp_path, line(hash_ids=[7])).format == "mooncake"
    timed = read(tmp_path, line(hash_ids=[7, 8, 9]) + line(timestamp=2.5, hash_ids=[7, 8, 1]))
    assert (timed.format, timed.block_tokens, timed.span_ns) == ("timed", 16, 1_500_000_000)
    for text in (line(), line(hash_ids=[1], input_length=10), line(hash_ids=[1, 2])):
        with pytest.raises(InputError, match="trace_format: mooncake"):
            read(tmp_path, text)
        assert read(tmp_path, text, "mooncake").rows and read(tmp_path, text, "timed").rows


def test_chats_of_bailian_are_sessions(tmp_path):
    chats = [(1, -1), (2, 1), (3, -1), (4, 2), (9, 77)]
    text = "".join(line(chat_id=chat, parent_chat_id=parent, hash_ids=[1, 2, 3]) for chat, parent in chats)
    assert [row.session for row in read(tmp_path, text).rows] == ["1", "1", "3", "1", "77"]


MALFORMED = {
    "no-json": ("mooncake", line() + "\n{oops\n", 3, "Is no request of a mooncake trace"),
    "text-for-number": ("timed", line(input_length="4"), 1, "input_length"),
    "missing-field": ("timed", '{"timestamp": 1}\n', 1, "input_length"),
    "negative": ("timed", line() + line(output_length=-1), 2, "negative"),
    "a-list": ("timed", "[1]\n", 1, "Is no request"),
    "too-few-columns": ("azure", AZURE + "2023-11-16 18:17:03,1,1\n2023-11-16 18:17:03,1\n", 3, "Has 2 columns"),
    "too-many-columns": ("azure", AZURE + "2023-11-16 18:17:03,1,1,1\n", 2, "Has 4 columns"),
    "no-date": ("azure", AZURE + "yesterday,1,1\n", 2, "is no date"),
    "month-13": ("azure", AZURE + "2023-13-16 18:17:03,1,1\n", 2, "is no date"),
    "no-count": ("azure", AZURE + "2023-11-16 18:17:03,1,many\n", 2, "is no number of tokens"),
    "half-a-token": ("azure", AZURE + "2023-11-16 18:17:03,1.5,2\n", 2, "is no number of tokens"),
    "negative-count": ("azure", AZURE + "2023-11-16 18:17:03,-5,2\n", 2, "negative"),
    "no-seconds": ("burstgpt", BURST_1 + "now,m,1,1,2,l\n", 2, "is no time in seconds"),
    "infinite": ("burstgpt", BURST_1 + "Infinity,m,1,1,2,l\n", 2, "is no time in seconds"),
    "not-a-number": ("burstgpt", BURST_1 + "NaN,m,1,1,2,l\n", 2, "is no time in seconds"),
    "open-quote": ("burstgpt", BURST_1 + '5,"m,1,1,2,l\n', 2, "Is no line of a CSV file"),
    "no-column": ("burstgpt", AZURE + "5,1,1\n", 1, "Has no column request tokens"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_lines_are_refused_with_their_place(tmp_path, case):
    kind, text, number, words = MALFORMED[case]
    with pytest.raises(InputError) as caught:
        read(tmp_path, text, kind)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(tmp_path / "trace"), number)
    assert words in problem.message and problem.remedy


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", "auto", "no known trace format"),
        ("a,b,c\n1,2,3\n", "auto", "no known trace format: 'a,b,c'"),
        (AZURE, "auto", "no request in it"),
        ("\n\n", "timed", "no request in it"),
        (AZURE + "2023-11-16 18:17:03,0,4\n", "auto", "only rows without tokens"),
    ],
)
def test_files_without_a_trace_are_refused(tmp_path, text, kind, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, text, kind)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.*Check the path"):
        read_trace(tmp_path / "nowhere")
    (tmp_path / "b").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="UTF-8"):
        read_trace(tmp_path / "b")


@given(st.text(max_size=200), st.sampled_from(["auto", "mooncake", "timed", "azure", "burstgpt"]))
def test_no_text_crashes_a_reader(tmp_path_factory, text, kind):
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_trace(path, kind)
    except InputError as error:
        assert all(problem.remedy for problem in error.problems)


@given(
    st.lists(st.integers(0, 100 * S), min_size=1, max_size=30).map(sorted),
    st.floats(0, 50),
    st.floats(0.1, 60),
    st.floats(0.1, 20),
)
def test_windows_take_each_row_once(offsets, start, width, speedup):
    trace = Trace(tuple(TraceRow(offset, 1, 1) for offset in offsets), "timed", span_ns=offsets[-1])
    lower, upper = round(start * S), round((start + width) * S)
    inside = [offset for offset in offsets if lower <= offset < upper]
    if not inside:
        with pytest.raises(InputError, match="No row of the trace"):
            window(trace, start, start + width)
        return
    part = window(trace, start, start + width, speedup)
    assert [row.offset_ns for row in part.rows] == [
        pytest.approx((offset - lower) / speedup, abs=1) for offset in inside
    ]
    assert all(0 <= row.offset_ns <= part.span_ns for row in part.rows)


def test_the_whole_trace_is_a_window():
    trace = Trace((TraceRow(0, 1, 1), TraceRow(5, 1, 1)), "timed", span_ns=5)
    assert window(trace).rows == trace.rows
