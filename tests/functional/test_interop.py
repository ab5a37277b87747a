"""`import` and `export` as a user types them."""

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "foreign"


@pytest.fixture
def run(servesmith):
    said = servesmith("bench", "virtual.yaml", "--runs", "runs", "--json")
    assert said.code == 0, said.err
    return next((servesmith.folder / "runs").iterdir())


def test_import_shows_numbers_side_by_side_with_what_differs(servesmith):
    said = servesmith("import", DATA / "vllm.json", DATA / "guidellm.json")
    assert said.code == 0
    assert "vLLM bench serve, Qwen/Qwen3-8B" in said.out
    assert "A role chunk counts as the first token" in " ".join(said.out.split())
    assert "std_ttft_ms" in said.out


def test_import_as_json_is_one_document(servesmith):
    found = servesmith("import", DATA / "sglang.jsonl", "--json").document["results"]
    assert [result["tool"] for result in found] == ["SGLang bench_serving"] * 2
    number = found[0]["numbers"]["ttft_mean_ms"]
    assert number["metric"]["value"] == 110
    assert number["definition"]["differs"]


def test_import_of_something_else_says_what_was_expected(servesmith):
    said = servesmith("import", "virtual.yaml")
    assert said.code == 2
    assert "virtual.yaml" in said.err
    assert "vLLM bench serve JSON" in said.err


def test_export_and_back(servesmith, run):
    exported = servesmith("export", "runs", "--format", "vllm", "-o", "out.json")
    assert exported.code == 0, exported.err
    again = servesmith("import", "out.json", "--json").document["results"]
    assert again[0]["tool"] == "servesmith"
    assert again[0]["date"].startswith("1970-01-01")  # where virtual time begins
    told = json.loads((run / "summary.json").read_text())["metrics"]
    assert again[0]["numbers"]["tpot_mean_ms"]["metric"]["value"] == pytest.approx(told["tpot_mean_ms"]["value"])


def test_export_to_llmd_as_json_and_yaml(servesmith, run):
    document = servesmith("export", run, "--format", "llm-d").document
    assert document["version"] == "0.2"
    assert document["run"]["eid"] == run.name
    assert document["run"]["time"]["start"] < document["run"]["time"]["end"]
    assert servesmith("export", run, "--format", "llm-d", "-o", "report.yaml").code == 0
    assert "time_to_first_token:" in (servesmith.folder / "report.yaml").read_text()


def test_export_of_no_run(servesmith):
    said = servesmith("export", ".", "--format", "vllm")
    assert said.code == 2
    assert "holds no measured trial" in said.err
    assert servesmith("export", ".", "--format", "excel").code == 2
