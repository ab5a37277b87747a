"""Every kind of workload and schedule through a whole trial: lengths as meant, requests when they are due."""

import json

import pytest

from servesmith.errand import LoadErrand
from servesmith.load.arrivals import schedule
from servesmith.measure.evidence import numbers, read_measured
from servesmith.measure.identity import same_asked
from servesmith.measure.parquet import read_doubts, read_records
from servesmith.measure.terms import Terms
from servesmith.recipe.model import Arrivals, Dataset, InferenceX, Lengths, Load, Prefixes, Recipe, Sessions, Workload
from servesmith.store.watch import Silent
from servesmith.trial import Order, Site, run_trial

SIM = Recipe(name="sim", engine="sim", flags={"ttft-ms": 20, "gap-ms": 2, "slots": 64})
CLOSED = Load(streams=4, warmup_s=0.5, window_s=1.0)


def measured(tmp_path, workload, load):
    result = run_trial(Order("a", SIM, LoadErrand(workload, load), 5), Site(tmp_path, Silent()))
    assert result.ending == "ok", result.log_line
    path = tmp_path / result.folder / "requests.parquet"
    records, _ = read_records(path)
    assert all(record.ok or record.error == "cancelled" for record in records)
    told = [record for record in records if record.prompt_tokens >= 0]
    assert told and all(record.prompt_tokens == record.prompt_tokens_meant for record in told)
    return records, read_doubts(path)


WORKLOADS = {
    "lengths": Workload(
        prompt_lengths=Lengths(kind="lognormal", mean=80, stdev=40, low=20),
        output_lengths=Lengths(kind="uniform", low=2, high=30),
    ),
    "prefixes": Workload(prompt_tokens=60, output_tokens=8, prefixes=Prefixes(count=2, tokens=30, share=0.5)),
    "ids": Workload(api="completions", text="ids", prompt_tokens=60, output_tokens=8),
    "inferencex": Workload(api="completions", inferencex=InferenceX(input_tokens=100, output_tokens=20, prompts=40)),
    "template": Workload(output_tokens=8, chat_template_kwargs={"enable_thinking": False}),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_in_a_closed_loop(tmp_path, name):
    records, _ = measured(tmp_path, WORKLOADS[name], CLOSED)
    if name == "lengths":
        assert len({record.prompt_tokens_meant for record in records}) > 10
        assert len({record.output_tokens_meant for record in records}) > 8


def test_sessions_wait_for_their_answers_and_their_user(tmp_path):
    sessions = Sessions(turns=3, question_tokens=20, think_s=0.05, think="fixed")
    workload = Workload(prompt_tokens=40, output_tokens=8, sessions=sessions)
    records, _ = measured(tmp_path, workload, CLOSED)
    by_index = {record.index: record for record in records}
    pairs = [(by_index[n - 1], by_index[n]) for n in by_index if n % 3 and n - 1 in by_index]
    assert len(pairs) > 10
    for before, after in pairs:
        assert after.prompt_tokens_meant == before.prompt_tokens_meant + 28
        assert after.due_ns - before.end_ns >= 0.05e9


def test_a_dataset(tmp_path):
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": f"tell me of {n} things " * (n + 1)}) for n in range(9)))
    records, doubts = measured(tmp_path, Workload(output_tokens=8, dataset=Dataset(path=str(path))), CLOSED)
    assert {record.prompt_tokens for record in records if record.prompt_tokens > 0} <= {4 + 5 * n for n in range(1, 10)}
    assert any("repeat one of the file's 9" in doubt for doubt in doubts)


def test_every_arrival_of_the_schedule_is_sent(tmp_path):
    arrivals = Arrivals(process="gamma", rate=60, burstiness=0.5)
    load = Load(arrivals=arrivals, warmup_s=0.5, window_s=1.0)
    records, _ = measured(tmp_path, Workload(prompt_tokens=40, output_tokens=8), load)
    due = schedule(arrivals, 5, 1.5).due_ns
    by_index = sorted(records, key=lambda record: record.index)
    start = by_index[0].due_ns - due[0]
    assert [record.due_ns - start for record in by_index] == list(due)


def test_open_loop_sessions_arrive_and_their_turns_follow(tmp_path):
    load = Load(arrivals=Arrivals(process="constant", rate=20), warmup_s=0.5, window_s=1.0)
    workload = Workload(prompt_tokens=40, output_tokens=8, sessions=Sessions(turns=2, question_tokens=20))
    records, _ = measured(tmp_path, workload, load)
    assert len(records) == 60


def test_a_trace_is_replayed_with_its_lengths(tmp_path):
    lines = [
        {"timestamp": 50 * n, "input_length": 600 + 7 * n, "output_length": 1 + n % 9, "hash_ids": [0, n + 1]}
        for n in range(40)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    arrivals = Arrivals(process="trace", trace=str(path), speedup=2.0)
    workload = Workload(api="completions", text="ids")
    records, doubts = measured(tmp_path, workload, Load(arrivals=arrivals, warmup_s=0.2, window_s=0.5))
    rows = sorted((record.index, record.prompt_tokens, record.output_tokens) for record in records)
    assert rows == [(n, 600 + 7 * n, 1 + n % 9) for n in range(28)]
    assert "12 of 40 rows of the trace are due after the window's end: not sent" in doubts


def test_two_trials_of_one_seed_can_be_shown_to_have_asked_the_same(tmp_path):
    def asked(name: str, seed: int, recipe: Recipe = SIM):
        order = Order(name, recipe, LoadErrand(Workload(output_tokens=8), CLOSED), seed)
        result = run_trial(order, Site(tmp_path, Silent()))
        return read_records(tmp_path / result.folder / "requests.parquet")[0]

    slower = SIM.model_copy(update={"flags": {**SIM.flags, "gap-ms": 8}})
    one, other, fresh = asked("a", 5), asked("b", 5, slower), asked("c", 6)
    found = same_asked(one, other)
    assert found.same and found.by_bytes and found.common > 10 and found.only_a > found.only_b
    assert len(same_asked(one, fresh).differing) == same_asked(one, fresh).common


def test_a_trial_is_measured_by_the_terms_of_its_errand(tmp_path):
    terms = Terms(request_limits={"ttft_ms": 10_000}, gpus=2)
    errand = LoadErrand(Workload(output_tokens=8), CLOSED, terms)
    result = run_trial(Order("a", SIM, errand, 5), Site(tmp_path, Silent()))
    metrics = result.metrics
    assert metrics["goodput_fraction"].value == 1.0
    assert metrics["output_tokens_per_s_per_gpu"].value == metrics["output_tokens_per_s"].value / 2
    assert numbers(read_measured(tmp_path / result.folder)) == metrics
