"""Whatever is given, the answer is a result or an InputError whose problems a person can act on."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.recipe.files import read_case
from servesmith.recipe.importers import recipe_from_command, recipe_from_shell
from servesmith.recipe.levers import read_levers
from servesmith.recipe.manifests import import_file

WORDS = [
    *("name", "engine", "vllm", "model", "flags", "env", "load", "streams", "extends", "services", "a", "image"),
    *("levers", "set", "command", "kind", "Pod", "apiVersion", "spec", "containers", "Config", "Image", "Cmd"),
    *("{", "}", "[", "]", ":", ": ", "- ", "\n", "\n  ", "\n    ", ",", '"', "'", "&x", "*x", "<<", "!t", "|", ">"),
    *("null", "1", "1e999", ".nan", "#"),
]
KEYS = [*WORDS[:20], "flags.x", "env.A"]
yamlish = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), max_size=40).map("".join)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=4))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=12,
)
known = st.fixed_dictionaries({"name": st.just("a"), "engine": st.just("vllm")})
sections = st.dictionaries(st.sampled_from(WORDS[:9]), trees, max_size=4)
valid_top = st.tuples(known, sections).map(lambda two: two[0] | two[1])
TOOLS = [
    *("docker", "run", "-e", "A=1", "--gpus", "all", "vllm", "serve", "m", "bash", "-c", "python", "-m", "sudo", "env"),
    *("vllm/vllm-openai", "--entrypoint", "vllm.entrypoints.openai.api_server", "llama-server", "--x", "-1", "numactl"),
]
argvs = st.lists(st.one_of(st.sampled_from(TOOLS), st.text(max_size=4)), max_size=12)
SETTINGS = ["flags.x=1", "load={}", "env.A=", "gpus=[1", "flags.a.b=c"]
settings_given = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(SETTINGS)), max_size=3)


def acts(function, *args):
    try:
        function(*args)
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.message
            assert problem.remedy
            assert problem.file or problem.field


def written(folder, text):
    path = folder.mktemp("f") / "f.yaml"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    return path


@settings(max_examples=80)
@given(st.one_of(yamlish, trees.map(json.dumps), valid_top.map(json.dumps)))
@example("name: a\nengine: sim\nflags: {? [a] : b}\n")
@example("a: 2024-99-99\n")
@example("name: a\nengine: sim\nflags: {x: 0x}\n")
@example("name: a\nengine: sim\nload: {streams: " + "9" * 5000 + "}\n")
@example("name: a\nengine: sim\nflags: {x: " + "9" * 5000 + "}\n")
@example("name: a\nengine: sim\nflags: {x: 1_0:30, y: -0o7, z: +.inf, w: !!int x}\n")
@example('name: a\nengine: sim\nextends: "\\0"\n')
def test_files(tmp_path_factory, text):
    path = written(tmp_path_factory, text)
    acts(read_case, path)
    acts(read_levers, path)
    acts(import_file, path)


@settings(max_examples=80)
@given(st.one_of(argvs, st.lists(st.text(), max_size=4)))
@example([""])
@example(["docker", "run", "--entrypoint", "", "vllm/vllm-openai", "--model", "m"])
@example(["docker", "run", "-e", "=x", "vllm/vllm-openai", "--model", "m"])
@example(["bash", "-c", "bash -c 'bash -c \"vllm serve m\"'"])
@example(["vllm", "serve", "m", "--j", '{"a":' * 2000])
@example(["vllm", "serve", "m", "--n", "9" * 5000])
def test_commands(argv):
    acts(recipe_from_command, argv)
    acts(recipe_from_shell, " ".join(argv))


@settings(max_examples=60)
@given(settings_given)
def test_settings(tmp_path_factory, sets):
    acts(read_case, written(tmp_path_factory, "name: a\nengine: sim\nflags: {a: {b: 1}}\n"), sets)
