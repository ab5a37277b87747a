"""Workloads by name, in files and on the command line."""

import pytest

from servesmith.errors import InputError
from servesmith.recipe.files import dump_case, read_case, with_sets
from servesmith.recipe.model import InferenceX, Load, Workload
from servesmith.recipe.presets import preset_names

HEAD = "name: a\nengine: sim\n"


def case_of(tmp_path, text, *sets):
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + text)
    return read_case(path, sets)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_workload_that_reads_back(tmp_path, name):
    case = case_of(tmp_path, f"workload: {{preset: {name}}}\n")
    (tmp_path / "again.yaml").write_text(dump_case(case))
    assert read_case(tmp_path / "again.yaml") == case
    assert case.workload != Workload() and case.load.streams > 8


def test_the_shapes_of_chat_5to1(tmp_path):
    asked = [
        (case.workload.prompt_tokens, case.workload.output_tokens, case.load.streams)
        for name in ("chat-5to1", "chat-5to1-light", "chat-5to1-prefill")
        for case in [case_of(tmp_path, f"workload: {{preset: {name}}}\n")]
    ]
    assert asked == [(2480, 500, 48), (2480, 500, 16), (8192, 2, 16)]


@pytest.mark.parametrize(("name", "longest"), [("inferencex-1k1k", 1024), ("inferencex-8k1k", 8192)])
def test_the_shapes_of_inferencex(tmp_path, name, longest):
    case = case_of(tmp_path, f"workload: {{preset: {name}}}\n")
    assert case.workload.inferencex == InferenceX(input_tokens=longest, output_tokens=1024, ratio=0.8, prompts=640)
    assert case.workload.inferencex.prompts == 10 * case.load.streams


def test_what_stands_beside_the_name_is_laid_over_it(tmp_path):
    case = case_of(tmp_path, "workload: {preset: chat-5to1, output_tokens: 7}\nload: {streams: 2}\n")
    assert (case.workload.prompt_tokens, case.workload.output_tokens, case.load.streams) == (2480, 7, 2)


def test_a_preset_takes_the_place_of_the_whole_workload_of_a_base(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + "workload: {shared_prefix_tokens: 9}\nload: {window_s: 30}\n")
    case = case_of(tmp_path, "extends: base.yaml\nworkload: {preset: chat-5to1}\n")
    assert (case.workload, case.load) == (
        Workload(prompt_tokens=2480, output_tokens=500),
        Load(streams=48, window_s=30),
    )


def test_a_base_may_name_it(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + "workload: {preset: chat-5to1}\n")
    case = case_of(tmp_path, "extends: base.yaml\nworkload: {output_tokens: 9}\n")
    assert (case.workload.prompt_tokens, case.workload.output_tokens) == (2480, 9)


def test_on_the_command_line(tmp_path):
    text = "workload: {api: completions, text: ids}\nload: {window_s: 30}\n"
    case = case_of(tmp_path, text, "workload.preset=chat-5to1-light", "workload.output_tokens=9")
    assert case.workload == Workload(prompt_tokens=2480, output_tokens=9)
    assert case.load == Load(streams=16, window_s=30)
    whole = case_of(tmp_path, text, "workload={preset: chat-5to1, output_tokens: 9}")
    assert whole.workload == case.workload and whole.load.streams == 48
    assert with_sets(case, ["workload.preset=chat-5to1"]).workload.output_tokens == 500
    with pytest.raises(InputError, match=r"--set workload.preset=no: workload.preset: .*Known: chat-5to1"):
        case_of(tmp_path, text, "workload.preset=no")


def test_new_nouns_read_back(tmp_path):
    text = """workload:
  prompt_lengths: {kind: lognormal, mean: 90, stdev: 5}
  output_lengths: {kind: uniform, high: 9}
  prefixes: {tokens: 5, share: 0.5}
  sessions: {turns: 4}
  chat_template_kwargs: {enable_thinking: false, effort: null}
load:
  arrivals:
    process: steps
    steps: [{rate: 3, seconds: 5}, {rate: 1, seconds: 20}]
    max_in_flight: 9
    overload: drop
"""
    case = case_of(tmp_path, text)
    (tmp_path / "again.yaml").write_text(dump_case(case))
    assert read_case(tmp_path / "again.yaml") == case
    assert case.workload.chat_template_kwargs == {"enable_thinking": False, "effort": None}
    assert case_of(tmp_path, text, "load.arrivals.max_in_flight=4").load.arrivals.max_in_flight == 4
    assert case_of(tmp_path, text, "load.arrivals=null", "workload.sessions=null").load.arrivals is None
