"""Exports tell our numbers in the other format, say our definitions, and leave out what is not known."""

import json
from datetime import datetime

import msgspec
import pytest
import rundata

from servesmith.errors import EvidenceError, InputError
from servesmith.interop.own import counts, read_trial, trial_folder
from servesmith.interop.read import read_results
from servesmith.interop.to_llmd import to_llmd
from servesmith.interop.to_vllm import to_vllm
from servesmith.measure.metrics import METRICS
from servesmith.measure.records import RequestRecord, Window
from servesmith.recipe.model import Arrivals


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "20261201-120000-bench"
    rundata.benched_run(folder)
    return folder


@pytest.fixture(scope="module")
def trial(run):
    began = "2026-12-01T12:00:00+00:00"
    return read_trial(trial_folder(run), began=began, ended="2026-12-01T12:00:09+00:00")


def test_vllm_fields_are_our_numbers(trial):
    found = to_vllm(trial)
    assert found["output_throughput"] == trial.metrics["output_tokens_per_s"].value
    assert found["duration"] == 6.0
    assert found["date"] == "20261201-120000"
    assert found["max_concurrency"] == rundata.STREAMS
    assert found["median_ttft_ms"] == pytest.approx(trial.metrics["ttft_p50_ms"].value)
    assert found["p99_e2el_ms"] == pytest.approx(1000 * trial.metrics["e2e_p99_s"].value)
    assert found["total_output_tokens"] / 6 == pytest.approx(found["output_throughput"], abs=0.1)
    assert "spec_decode_acceptance_rate" not in found
    assert None not in found.values()
    assert found["servesmith"]["definitions"]["median_ttft_ms"]["formula"] == METRICS["ttft_p50_ms"].formula


def test_vllm_fields_that_readers_of_the_format_need(trial):
    """What vLLM's own code writes for every generating benchmark, apart from what only it can know."""
    needed = {"date", "backend", "model_id", "num_prompts", "request_rate", "max_concurrency", "duration", "completed",
              "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput",
              "total_token_throughput"}  # fmt: skip
    needed |= {f"{what}_{of}_ms" for what in ("mean", "median", "std", "p99") for of in ("ttft", "tpot", "itl", "e2el")}
    assert needed <= to_vllm(trial).keys()


def test_what_was_exported_is_read_again_as_ours(trial, tmp_path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps(to_vllm(trial)))
    (result,) = read_results([path])
    assert result.tool == "servesmith"
    for key, number in result.numbers.items():
        assert number.metric.value == pytest.approx(trial.metrics[key].value)
        assert not number.definition.differs
    assert {"ttft_p95_ms", "tpot_mean_ms", "itl_p50_ms", "e2e_p99_s", "error_rate"} <= result.numbers.keys()


REQUIRED = {
    "": {"run", "results"},
    "run": {"uid"},
    "scenario/load": {"metadata", "standardized", "native"},
    "scenario/load/standardized": {"tool", "tool_version", "source", "input_seq_len"},
    "scenario/load/standardized/input_seq_len": {"distribution", "value"},
    "results/request_performance/aggregate/requests": {"total"},
}
"""Required fields of the schema: br_v0_2_json_schema.json of llm-d-benchmark."""
ALLOWED = {
    "": {"version", "run", "scenario", "results"},
    "run": {"uid", "eid", "cid", "pid", "time", "user", "description", "keywords"},
    "run/time": {"start", "end", "duration"},
    "scenario": {"stack", "load"},
    "scenario/load": {"metadata", "standardized", "native"},
    "scenario/load/standardized": {
        "tool", "tool_version", "parallelism", "source", "stage", "input_seq_len", "output_seq_len", "prefix",
        "multi_turn", "rate_qps", "concurrency",
    },
    "scenario/load/standardized/input_seq_len": {"distribution", "value", "std_dev", "min", "max"},
    "results/request_performance/aggregate": {"requests", "latency", "throughput"},
    "results/request_performance/aggregate/requests": {
        "total", "failures", "incomplete", "input_length", "output_length", "request_size", "multimodal",
    },
    "results/request_performance/aggregate/latency": {
        "time_to_first_token", "normalized_time_per_output_token", "time_per_output_token", "inter_token_latency",
        "request_latency",
    },
    "results/request_performance/aggregate/throughput": {
        "input_token_rate", "output_token_rate", "total_token_rate", "request_rate", "image_rate", "video_rate",
        "audio_rate",
    },
}  # fmt: skip
"""Fields that the schema knows where it forbids all others."""
STATISTICS = {"units", "mean", "mode", "stddev", "min", "p0p1", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95",
              "p99", "p99p9", "max"}  # fmt: skip
UNITS = {"time_to_first_token": {"ms", "s"}, "request_latency": {"ms", "s"},
         "time_per_output_token": {"ms/token", "s/token"}, "inter_token_latency": {"ms/token", "s/token"},
         "output_token_rate": {"tokens/s"}, "total_token_rate": {"tokens/s"}, "request_rate": {"queries/s"},
         "input_length": {"count"}, "output_length": {"count"}}  # fmt: skip


def at(report, path):
    for name in filter(None, path.split("/")):
        report = report[name]
    return report


@pytest.mark.parametrize("path", REQUIRED)
def test_llmd_has_what_its_schema_requires(trial, path):
    assert REQUIRED[path] <= at(to_llmd(trial), path).keys()


@pytest.mark.parametrize("path", ALLOWED)
def test_llmd_has_nothing_that_its_schema_forbids(trial, path):
    assert at(to_llmd(trial), path).keys() <= ALLOWED[path]


def test_llmd_statistics(trial):
    aggregate = to_llmd(trial)["results"]["request_performance"]["aggregate"]
    found = {name: value for part in aggregate.values() for name, value in part.items() if isinstance(value, dict)}
    assert set(found) == set(UNITS)
    for name, statistics in found.items():
        assert {"units", "mean"} <= statistics.keys() <= STATISTICS, name
        assert statistics["units"] in UNITS[name]
    assert found["time_to_first_token"]["p95"] == pytest.approx(trial.metrics["ttft_p95_ms"].value)
    assert found["request_latency"]["p50"] == pytest.approx(trial.metrics["e2e_p50_s"].value)
    assert found["output_token_rate"]["mean"] == trial.metrics["output_tokens_per_s"].value
    assert found["output_length"]["mean"] == rundata.OUTPUT_TOKENS


def test_llmd_says_our_definitions(trial):
    config = to_llmd(trial)["scenario"]["load"]["native"]["config"]
    assert config["definitions"]["time_to_first_token"]["formula"] == METRICS["ttft_mean_ms"].formula
    assert config["load"]["streams"] == rundata.STREAMS


def test_llmd_names_the_engine_where_its_version_is_known(trial):
    assert "stack" not in to_llmd(trial)["scenario"]
    known = msgspec.structs.replace(trial, engine_version="b10549")
    (component,) = to_llmd(known)["scenario"]["stack"]
    assert component.keys() == {"metadata", "standardized", "native"}
    assert {"label", "cfg_id"} <= component["metadata"].keys()
    assert {"kind", "tool", "tool_version"} <= component["standardized"].keys()


def test_the_gap_between_chunks_is_no_time_per_token_under_speculation(trial):
    several = {**trial.metrics, "tokens_per_chunk": msgspec.structs.replace(trial.metrics["tokens_per_chunk"], value=3)}
    latency = to_llmd(msgspec.structs.replace(trial, metrics=several))["results"]["request_performance"]["aggregate"]
    assert "inter_token_latency" not in latency["latency"]
    assert "time_per_output_token" in latency["latency"]


def test_equal_evidence_gives_equal_exports(run):
    folder = trial_folder(run)
    assert to_llmd(read_trial(folder)) == to_llmd(read_trial(folder))
    datetime.fromisoformat(to_llmd(read_trial(folder, began="2026-12-01T12:00:00+00:00"))["run"]["time"]["start"])


def test_a_trial_outside_its_run_tells_less(run, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    for file in trial_folder(run).iterdir():
        (alone / file.name).write_bytes(file.read_bytes())
    trial = read_trial(trial_folder(alone))
    assert "max_concurrency" not in to_vllm(trial)
    assert "date" not in to_vllm(trial)
    report = to_llmd(trial)
    assert "eid" not in report["run"]
    assert report["scenario"]["load"]["standardized"]["source"] == "unknown"
    assert "concurrency" not in report["scenario"]["load"]["standardized"]


def test_an_open_loop_has_a_rate_and_its_bound(trial):
    def exported(**arrivals):
        load = trial.case.load.model_copy(update={"arrivals": Arrivals(**arrivals)})
        opened = msgspec.structs.replace(trial, case=trial.case.model_copy(update={"load": load}))
        return to_vllm(opened), to_llmd(opened)["scenario"]["load"]["standardized"]

    flat, report = exported(rate=4.0, max_in_flight=9)
    assert (flat["request_rate"], flat["max_concurrency"]) == (4.0, 9)
    assert (report["rate_qps"], report["concurrency"]) == (4.0, 9)
    flat, report = exported(process="ramp", rate=1.0, to_rate=5.0)
    assert not {"request_rate", "max_concurrency"} & flat.keys()
    assert not {"rate_qps", "concurrency"} & report.keys()


def test_a_run_of_several_trials_asks_which(tuned):
    with pytest.raises(InputError, match="measured trials, and an export is of one") as caught:
        trial_folder(tuned)
    assert "confirm--ngram-simple--block-2--A" in str(caught.value)


def test_a_folder_without_records(tmp_path):
    with pytest.raises(InputError, match="holds no measured trial"):
        trial_folder(tmp_path)


def test_broken_evidence_is_said(run, tmp_path):
    for file in trial_folder(run).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "facts.json").write_text("{")
    with pytest.raises(EvidenceError, match=r"facts\.json"):
        read_trial(tmp_path)


def record(error="", sent=0, end=50):
    return RequestRecord(index=0, stream=0, due_ns=sent, sent_ns=sent, end_ns=end, error=error)


def test_requests_are_counted_by_how_they_ended_in_the_window():
    never, early, late = record("dropped"), record(sent=-9, end=-1), record(sent=100, end=150)
    under_way = [record("cancelled"), record(end=200)]
    records = [record(), record("cut"), *under_way, never, early, late]
    found = counts(records, Window(0, 100))
    assert (found.well, found.failed, found.open) == (1, 1, 2)
