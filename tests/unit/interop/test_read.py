"""Every format gives our keys in our units, tells what differs, and drops nothing."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.interop.read import FORMATS, read_results
from servesmith.measure.metrics import METRICS

DATA = Path(__file__).parents[2] / "data" / "foreign"
FILES = sorted([*DATA.glob("*.json"), *DATA.glob("*.jsonl")])


def read(name):
    return read_results([DATA / name])


def values(result):
    return {key: number.metric.value for key, number in result.numbers.items()}


def leaves(node, above=""):
    for key, value in node.items():
        yield above + key
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}/")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_units_are_those_of_our_table_and_each_number_is_defined(path):
    for result in read_results([path]):
        for key, number in result.numbers.items():
            assert number.metric.unit == METRICS[key].unit
            assert number.metric.better == METRICS[key].better
            assert number.definition.says
        assert result.format.startswith("https://github.com/")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_field_of_a_file_is_used_or_listed(path, tmp_path):
    """Change a field: either the result changes, or the field is listed as not mapped."""
    whole = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else None
    document = whole[0] if whole else json.loads(path.read_text())
    document = document[0] if isinstance(document, list) else document
    if "benchmarks" in document:
        document = document["benchmarks"][0]
    listed = read_results([path])[0].unmapped
    for field in leaves(document):
        parts = field.split("/")
        covered = any("/".join(parts[:depth]) in listed for depth in range(1, len(parts) + 1))
        above_of_others = any(other.startswith(f"{field}/") for other in leaves(document))
        assert covered or above_of_others or _is_used(path, parts, tmp_path), field


def _is_used(path, parts, tmp_path):
    """A field that is neither listed nor told again elsewhere must show when it is changed."""
    told_elsewhere = {"request_rate", "backend"} | {"unit", "is_multinode", "spec_decoding"}
    text = json.dumps([_plain(result) for result in read_results([path])])
    return parts[-1] in told_elsewhere or _value_shows(path, parts, text, tmp_path)


def _plain(result):
    shape = {name: getattr(result.shape, name) for name in result.shape.__struct_fields__}
    return [values(result), shape, result.model, result.date, result.version]


def _value_shows(path, parts, before, tmp_path):
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    document = json.loads(lines[0])
    node = document[0] if isinstance(document, list) else document
    node = node["benchmarks"][0] if "benchmarks" in node else node
    for name in parts[:-1]:
        node = node[name]
    old = node[parts[-1]]
    node[parts[-1]] = f"x{old}" if isinstance(old, str) else 7.125
    copy = tmp_path / path.name
    copy.write_text("\n".join([json.dumps(document), *lines[1:]]))
    return json.dumps([_plain(result) for result in read_results([copy])]) != before


def test_vllm():
    (result,) = read("vllm.json")
    found = values(result)
    assert result.tool == "vLLM bench serve"
    assert (result.model, result.date) == ("Qwen/Qwen3-8B", "2026-11-30T09:15:02")
    assert (result.shape.streams, result.shape.rate, result.shape.prompt_tokens) == (16, None, 1024)
    assert found["output_tokens_per_s"] == 506.88
    assert found["ttft_p50_ms"] == pytest.approx(108)
    assert found["e2e_p95_s"] == pytest.approx(5.1)
    assert found["error_rate"] == 0.01
    assert found["draft_acceptance"] == 0.625
    assert "role chunk" in result.numbers["ttft_p50_ms"].definition.differs
    assert {"std_ttft_ms", "mean_itl_ms", "max_concurrent_requests"} <= result.unmapped.keys()


def test_the_older_vllm_file_has_no_count_of_failures():
    (result,) = read("vllm-old.json")
    assert result.tool == "vLLM bench serve"
    assert result.shape.rate == 4.0
    assert "error_rate" not in result.numbers
    assert "request_goodput:" in result.unmapped


def test_sglang_lines_are_results():
    first, second = read("sglang.jsonl")
    assert (first.shape.streams, second.shape.streams) == (32, None)
    assert (first.model, second.model) == ("Qwen/Qwen3-8B", "")
    assert values(first)["total_tokens_per_s"] == 4608
    assert values(first)["e2e_p50_s"] == pytest.approx(3.24)
    assert values(second)["output_tokens_per_s"] == 700
    assert "accept_length" in second.unmapped


def test_aiperf_tells_its_units():
    (result,) = read("aiperf.json")
    found = values(result)
    assert (result.version, result.model, result.shape.streams) == ("0.13.0", "Qwen/Qwen3-8B", 16)
    assert found["tpot_mean_ms"] == 27.5
    assert found["itl_p95_ms"] == pytest.approx(40.8)
    assert found["e2e_p50_s"] == pytest.approx(3.285)
    assert found["error_rate"] == 0.025


def test_aiperf_in_seconds(tmp_path):
    document = json.loads((DATA / "aiperf.json").read_text())
    document["time_to_first_token"] |= {"unit": "sec", "avg": 0.125}
    document["inter_token_latency"]["unit"] = "fortnights"
    (tmp_path / "x").write_text(json.dumps(document))
    (result,) = read_results([tmp_path / "x"])
    assert values(result)["ttft_mean_ms"] == 125
    assert "tpot_mean_ms" not in result.numbers
    assert "inter_token_latency/avg" in result.unmapped


def test_guidellm_benchmarks_are_results():
    first, second = read("guidellm.json")
    assert (first.shape.streams, first.shape.rate) == (16, None)
    assert (second.shape.streams, second.shape.rate) == (64, 2.0)
    assert first.date == "2025-11-30T09:13:25+00:00"
    assert first.version == second.version == "0.8.1"
    assert values(first)["tpot_token_mean_ms"] == 27.4
    assert first.numbers["tpot_token_mean_ms"].definition.differs == ""
    assert "over tokens" in first.numbers["tpot_p50_ms"].definition.differs
    assert "TTFT is in it" in first.unmapped["metrics/time_per_output_token_ms"]
    assert values(first)["error_rate"] == pytest.approx(2 / 152)


def test_inferencex():
    (client,) = read("inferencex-client.json")
    assert client.tool == "InferenceX client"
    node, nodes = read("inferencex-rows.json")
    assert values(node)["output_tokens_per_s"] == 3000
    assert values(node)["ttft_p50_ms"] == 200
    assert values(node)["e2e_p99_s"] == 30
    assert "per GPU" in node.numbers["total_tokens_per_s"].metric.doubts[0]
    assert "output_tokens_per_s" not in nodes.numbers
    assert "tput_per_gpu" in nodes.unmapped


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("hello", "is no JSON"),
        ('{"a": 1}', "is no result that is known here"),
        ("[]", "is no result that is known here"),
        ("[1]", "entry 1 is no result"),
        ('{"a": 1}\n{"b":', "line 2 is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"request_throughput": null, "model_id": "x", "completed": 0}', "is no result"),
        ('{"request_throughput": NaN, "model_id": "x", "completed": 0}', "none of its numbers"),
        ('{"benchmarks": [{"metrics": {}}]}', "looks like GuideLLM JSON"),
    ],
)
def test_what_is_no_result_is_refused_with_what_was_expected(tmp_path, text, told):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        read_results([path])
    (problem,) = caught.value.problems
    assert problem.file == str(path)
    assert problem.remedy


def test_problems_of_all_files_at_once(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError) as caught:
        read_results([tmp_path / "a", DATA / "vllm.json", tmp_path / "b", tmp_path])
    assert len(caught.value.problems) == 3


def test_a_negative_time_is_doubted(tmp_path):
    document = json.loads((DATA / "guidellm.json").read_text())
    document["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["mean"] = -1.7e12
    (tmp_path / "x").write_text(json.dumps(document))
    assert "negative" in read_results([tmp_path / "x"])[0].numbers["ttft_mean_ms"].metric.doubts[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_a_file_with_any_field_replaced_is_read_or_refused(tmp_path_factory, data):
    path = data.draw(st.sampled_from([path for path in FILES if path.suffix == ".json"]))
    document = json.loads(path.read_text())
    node = document[0] if isinstance(document, list) else document
    while True:
        key = data.draw(st.sampled_from(sorted(node)))
        below = node[key][0] if isinstance(node[key], list) and node[key] else node[key]
        if not isinstance(below, dict) or not below or data.draw(st.booleans()):
            node[key] = data.draw(JSON)
            break
        node = below
    changed = tmp_path_factory.mktemp("changed") / "x.json"
    changed.write_text(json.dumps(document))
    try:
        results = read_results([changed])
    except InputError:
        return
    json.dumps([_plain(result) for result in results], allow_nan=False)


def test_formats_do_not_claim_each_others_files():
    tools = {path.name: {result.tool for result in read_results([path])} for path in FILES}
    assert len(set().union(*tools.values())) == 6
    assert len(FORMATS) == 7
