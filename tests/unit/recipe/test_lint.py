"""What `check` says of a case before anything is started."""

import pytest

from servesmith.recipe.lint import check
from servesmith.recipe.model import (
    Arrivals,
    Case,
    Dataset,
    InferenceX,
    Lengths,
    Load,
    Overlay,
    Prefixes,
    Recipe,
    Sessions,
    Step,
    Workload,
)

KNOWN = frozenset({"parallel", "np", "xyz", "threads", "cache-type-k", "cache-type-v", "kv-unified", "api-key"})


def found(known=None, workload=None, load=None, **fields):
    base = {"name": "a", "engine": "llamacpp", "model": "org/model"}
    problems = check(
        Case(recipe=Recipe(**{**base, **fields}), workload=workload or Workload(), load=load or Load()), known
    )
    assert all(problem.remedy for problem in problems)
    return {problem.field: f"{problem.message} {problem.remedy}" for problem in problems}


def test_nothing_to_say():
    assert found(KNOWN, flags={"-np": 8, "no-kv-unified": True, "-t": 2, "-xyz": 1, "cache_type_k": "f16"}) == {}


def test_unknown_flags_with_the_nearest():
    said = found(KNOWN, flags={"paralel": 8, "--": 1, "zzz": 1})
    assert "`parallel`" in said["flags.paralel"]
    assert "Delete it" in said["flags.zzz"]


def test_flags_are_not_judged_if_nothing_is_known():
    assert found(None, flags={"anything": 1}) == {}


def test_the_same_flag_twice():
    assert "'-np'" in found(KNOWN, flags={"-np": 8, "parallel": 4})["flags.parallel"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("", "No model"),
        ("/nowhere/m.gguf", "no /nowhere/m.gguf"),
        ("./nowhere", "no ./nowhere"),
        ("m.gguf", "no m.gguf"),
        ("/" + "x" * 5000, "Correct the path"),
        ("/\0", "Correct the path"),
        ("package:nothing", "package:NAME/FILE"),
        ("package:no_such_package_here/m.gguf", "pip install no_such_package_here"),
    ],
)
def test_models_that_are_not_there(model, says):
    assert says in found(model=model)["model"]


def test_models_that_are_there(tmp_path):
    (tmp_path / "m.gguf").touch()
    assert found(model=str(tmp_path / "m.gguf")) == {}
    assert found(model="package:pytest/m.gguf") == {}
    assert found(model="", engine="endpoint", url="http://h") == {}
    assert "model" not in found(model="/models/in-the-container", image="i:1")


def test_overlay_sources(tmp_path):
    overlays = (Overlay(source=str(tmp_path), target="/t"), Overlay(source="/nowhere", target="/t"))
    assert set(found(overlays=overlays)) == {"overlays.1.source"}


def test_image_by_tag():
    assert "sha256" in found(image="vllm/vllm-openai:latest")["image"]
    assert found(image="vllm/vllm-openai@sha256:" + "0" * 64) == {}


def test_lossy_settings():
    assert "kv-q4" in found(flags={"-ctk": "q4_0", "cache-type-v": "q4_0"})["flags"]
    assert found(flags={"-ctk": "q4_0"}) == {}


def test_prompts_that_are_all_prefix():
    assert (
        "shorter" in found(workload=Workload(prompt_tokens=8, shared_prefix_tokens=8))["workload.shared_prefix_tokens"]
    )
    assert found(workload=Workload(prompt_tokens=8, prefixes=Prefixes(tokens=9))).keys() == {"workload.prefixes.tokens"}
    assert found(workload=Workload(prompt_lengths=Lengths(kind="uniform", high=99), shared_prefix_tokens=64)) == {}


def test_files_of_the_workload_and_the_load(tmp_path):
    lengths = Lengths(kind="trace", trace="/nowhere/a")
    workload = Workload(prompt_lengths=lengths, output_lengths=lengths)
    assert found(workload=workload).keys() == {"workload.prompt_lengths.trace", "workload.output_lengths.trace"}
    assert found(workload=Workload(dataset=Dataset(path="/nowhere/b"))).keys() == {"workload.dataset.path"}
    assert found(workload=Workload(dataset=Dataset(path=str(tmp_path)))) == {}
    load = Load(arrivals=Arrivals(process="trace", trace="/nowhere/c"))
    assert found(load=load).keys() == {"load.arrivals.trace"}


def test_what_a_schedule_leaves_out(tmp_path):
    steps = Arrivals(process="steps", steps=(Step(rate=1, seconds=30),))
    said = found(load=Load(arrivals=steps, warmup_s=2, window_s=20))
    assert "load.window_s to 28" in said["load.arrivals.steps"]
    assert found(load=Load(arrivals=steps, warmup_s=2, window_s=28)) == {}
    trace = Load(arrivals=Arrivals(process="trace", trace=str(tmp_path)))
    assert found(load=trace, workload=Workload(sessions=Sessions())).keys() == {"workload.sessions"}
    assert found(load=trace) == {}


def test_inferencex_has_ten_prompts_a_stream():
    said = found(workload=Workload(inferencex=InferenceX(prompts=640)), load=Load(streams=8))
    assert "Set it to 80" in said["workload.inferencex.prompts"]
    assert found(workload=Workload(inferencex=InferenceX(prompts=80)), load=Load(streams=8)) == {}
