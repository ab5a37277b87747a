"""Recipe files: inheritance, settings, edits, round trips, and the files that come with the project."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.recipe import yamltext
from servesmith.recipe.files import case_schema, dump_case, edit_file, read_case, set_path, write_text
from servesmith.recipe.model import Case, Goal, Load, Overlay, Recipe, Workload
from servesmith.recipe.paths import join_dotted, merge, split_dotted
from servesmith.recipe.secrets import is_secret_flag

ROOT = Path(__file__).parents[3]
BASE = """\
name: base
engine: vllm
model: m
env: {A: "1", B: "2"}
flags:
  max-num-seqs: 64
  speculative-config: {method: ngram, num_speculative_tokens: 3}
  eager: true
gpus: [0, 1]
"""


def put(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


# --- reading


def test_the_smallest_recipe(tmp_path):
    case = read_case(put(tmp_path, "r.yaml", "name: a\nengine: sim\n"))
    assert case == Case(recipe=Recipe(name="a", engine="sim"))


def test_yaml_1_2_words_stay_text(tmp_path):
    text = "name: a\nengine: sim\nenv: {A: no, B: yes, C: on, D: 2001-01-01, E: 1:30}\nflags: {fa: off}\n"
    recipe = read_case(put(tmp_path, "r.yaml", text)).recipe
    assert recipe.env == {"A": "no", "B": "yes", "C": "on", "D": "2001-01-01", "E": "1:30"}
    assert recipe.flags == {"fa": "off"}


def test_flag_values_keep_their_types(tmp_path):
    flow = "{a: 1, b: 1.0, c: true, d: '1', e: [1, x], f: [[1], [x, 2.5], []], g: {h: null}}"
    text = f"name: a\nengine: sim\nflags: {flow}\n"
    flags = read_case(put(tmp_path, "r.yaml", text)).recipe.flags
    assert flags == {"a": 1, "b": 1.0, "c": True, "d": "1", "e": [1, "x"], "f": [[1], ["x", 2.5], []], "g": {"h": None}}
    assert [type(flags[key]) for key in "abcd"] == [int, float, bool, str]


def test_anchors_and_merge_keys(tmp_path):
    text = "name: a\nengine: sim\nflags: &f {a: 1, b: 2}\ncontainer:\n  <<: *f\n  b: 3\n"
    assert read_case(put(tmp_path, "r.yaml", text)).recipe.container == {"a": 1, "b": 3}


def test_extends_merges_deeply_and_null_removes(tmp_path):
    put(tmp_path, "base.yaml", BASE + "load: {streams: 4, window_s: 5}\n")
    (tmp_path / "sub").mkdir()
    path = put(
        tmp_path / "sub",
        "r.yaml",
        "extends: ../base.yaml\nname: b\nenv: {A: null, C: '3'}\ngpus: [3]\nload: {streams: 8}\n"
        "flags:\n  eager: null\n  speculative-config: {num_speculative_tokens: 5, method: null}\n",
    )
    case = read_case(path)
    assert case.recipe.name == "b"
    assert case.recipe.env == {"B": "2", "C": "3"}
    assert case.recipe.gpus == (3,)
    assert case.recipe.flags == {"max-num-seqs": 64, "speculative-config": {"num_speculative_tokens": 5}}
    assert (case.load.streams, case.load.window_s) == (8, 5)


def test_settings_come_last(tmp_path):
    path = put(tmp_path, "r.yaml", BASE)
    sets = [
        "flags.max-num-seqs=128",
        "flags.eager=null",
        "flags.speculative-config.num_speculative_tokens=7",
        'flags."a.b"=1',
        "env.A=9",
        "env.N=no",
        'env.Q="x"',
        "env.B=null",
        "load.streams=32",
        "gpus=[2]",
        "flags.text=a=b",
        "name=c",
    ]
    case = read_case(path, sets)
    assert case.recipe.flags == {
        "max-num-seqs": 128,
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 7},
        "a.b": 1,
        "text": "a=b",
    }
    assert case.recipe.env == {"A": "9", "N": "no", "Q": "x"}
    assert (case.load.streams, case.recipe.gpus, case.recipe.name) == (32, (2,), "c")


def test_a_dotted_flag_that_is_there_is_set(tmp_path):
    path = put(tmp_path, "r.yaml", "name: a\nengine: vllm\nflags: {speculative-config.method: ngram}\n")
    recipe = read_case(path, ["flags.speculative-config.method=suffix"]).recipe
    assert recipe.flags == {"speculative-config.method": "suffix"}


def test_a_json_text_is_merged_as_json(tmp_path):
    path = put(tmp_path, "r.yaml", "name: a\nengine: vllm\nflags: {c: '{\"x\":  1}'}\n")
    assert read_case(path, ["flags.c.y=2"]).recipe.flags == {"c": {"x": 1, "y": 2}}


def test_hash_ignores_name_order_comments_and_place(tmp_path):
    one = read_case(put(tmp_path, "a.yaml", BASE)).recipe
    put(tmp_path, "base.yaml", "engine: vllm\nmodel: m\nname: x\nflags: {eager: true, max-num-seqs: 64}\n")
    other = put(
        tmp_path,
        "b.yaml",
        "# other order\nextends: base.yaml\ngpus:\n- 0\n- 1\nenv: {B: '2', A: '1'}\n"
        "flags:\n  speculative-config:\n    num_speculative_tokens: 3\n    method: ngram\n",
    )
    assert read_case(other).recipe.digest() == one.digest()
    assert read_case(other, ["flags.eager=null"]).recipe.digest() != one.digest()


def test_hash_is_pinned():
    """A change of this hash orphans every recorded result: it needs a reason and a note in the changelog."""
    recipe = Recipe(name="a", engine="llamacpp", model="m", flags={"parallel": 8, "x": [1, "a"], "y": {"k": None}})
    assert recipe.digest() == "7bfba71018522aea"


# --- writing

scalars = st.one_of(
    st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8), st.just(True)
)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=10)
names = texts.filter(lambda name: name.strip("-") and not name.startswith("--") and not set(name) & set("= \t\n\r"))
names = names.filter(lambda name: name.split() == [name] and not is_secret_flag(name))
safe = st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), texts)
flags = st.dictionaries(
    names,
    st.one_of(
        st.just(True),
        safe,
        st.lists(safe, min_size=1, max_size=3),
        st.lists(st.lists(safe, max_size=2), min_size=2, max_size=3),
        st.dictionaries(texts, st.one_of(st.none(), safe, st.lists(safe, max_size=2)), max_size=3),
    ),
    max_size=4,
)


@settings(max_examples=50)
@given(flags, st.dictionaries(texts, texts, max_size=3))
def test_what_is_written_reads_back_the_same(tmp_path_factory, flags, env):
    recipe = Recipe(name="a", engine="vllm", model="m", flags=flags, env=env, gpus=(0, 2), executable=("vllm", "no"))
    case = Case(recipe=recipe, load=Load(streams=3, window_s=0.1), goal=Goal(limits={"ttft_p95": 2.0}))
    path = tmp_path_factory.mktemp("w") / "r.yaml"
    write_text(path, dump_case(case))
    assert read_case(path) == case


def test_written_file_is_for_people(tmp_path):
    recipe = Recipe(
        name="a",
        engine="vllm",
        flags={"x": "on", "j": {"a": 1}},
        env={"A": "1"},
        overlays=(Overlay(source="s", target="t"),),
    )
    text = dump_case(Case(recipe=recipe, workload=Workload(prompt_tokens=9)))
    recipe_lines = 'name: a\nengine: vllm\nenv:\n  A: "1"\nflags:\n  x: "on"\n  j:\n    a: 1\n'
    assert text.startswith(recipe_lines + "overlays:\n  - source: s\n    target: t\n")
    assert "prompt_tokens: 9\n" in text


def test_dump_is_the_same_under_yaml_1_1():
    yaml = pytest.importorskip("yaml")
    recipe = Recipe(name="a", engine="sim", env={"A": "no"}, flags={"x": "on", "y": "1e5", "z": "0x10", "n": "~"})
    data = yaml.safe_load(dump_case(Case(recipe=recipe)))
    assert data["flags"] == {"x": "on", "y": "1e5", "z": "0x10", "n": "~"}
    assert data["env"] == {"A": "no"}


COMMENTED = """\
# top
name: a   # the name

engine: vllm
flags:
  # why this
  max-num-seqs: 64  # tuned by hand
  'quoted': "x"
  list:
  - 1
  - 2
env: {A: "1"}
"""


def test_edits_keep_comments_and_style(tmp_path):
    path = put(tmp_path, "r.yaml", COMMENTED)
    edit_file(path, "flags.max-num-seqs", 96)
    assert path.read_text() == COMMENTED.replace("64", "96")
    edit_file(path, "env.B", "2")
    edit_file(path, "load.streams", 4)
    edit_file(path, "flags.quoted", None)
    case = edit_file(path, 'flags."a.b"', {"c": "on"})
    text = path.read_text()
    assert all(comment in text for comment in ("# top", "# the name", "# why this", "# tuned by hand"))
    assert "  list:\n  - 1\n  - 2\n" in text
    assert 'env: {A: "1", B: "2"}' in text
    assert case == read_case(path)
    assert case.recipe.flags == {"max-num-seqs": 96, "list": [1, 2], "a.b": {"c": "on"}}
    assert case.load.streams == 4


def test_edit_of_an_extending_file_sees_the_base(tmp_path):
    put(tmp_path, "base.yaml", BASE)
    path = put(tmp_path, "r.yaml", "extends: base.yaml\n")
    case = edit_file(path, "flags.max-num-seqs", 1)
    assert path.read_text() == "extends: base.yaml\nflags:\n  max-num-seqs: 1\n"
    assert case.recipe.flags["eager"] is True


# --- paths


@given(st.lists(st.text(st.characters(blacklist_characters="\"'"), min_size=1), min_size=1, max_size=4))
def test_dotted_paths_round_trip(path):
    assert split_dotted(join_dotted(tuple(path))) == tuple(path)


def test_set_path_is_pure():
    data = {"flags": {"a": {"b": 1}}}
    assert set_path(data, "flags.a.c", 2) == {"flags": {"a": {"b": 1, "c": 2}}}
    assert set_path(data, "flags.a", None) == {"flags": {}}
    assert data == {"flags": {"a": {"b": 1}}}


plain = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3)), lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
mappings = st.dictionaries(st.text(max_size=2), plain, max_size=3)


@given(mappings, mappings)
def test_merge_laws(base, over):
    merged = merge(base, over)
    assert merge(merged, over) == merged
    assert merge(base, {}) == base
    assert merge(base, dict.fromkeys(base)) == {}
    assert set(merged) == set(base) | set(over)


# --- what comes with the project


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("**/*.yaml")), ids=lambda path: path.name)
def test_ready_recipes_read_and_survive_a_round_trip(path, tmp_path):
    case = read_case(path)
    write_text(tmp_path / "r.yaml", dump_case(case))
    assert read_case(tmp_path / "r.yaml") == case


def test_the_local_recipe_is_the_engine_as_it_comes():
    case = read_case(ROOT / "recipes" / "local-smollm2.yaml")
    assert case.recipe.engine == "llamacpp"
    assert case.recipe.flags == {}
    assert (case.workload.prompt_tokens, case.workload.output_tokens, case.load.streams) == (56, 64, 8)
    assert case.load.window_s >= 15, "a request takes about 4 s on two cores, and the window must hold several"


def test_published_schema_is_current():
    written = json.loads((ROOT / "docs" / "recipe.schema.json").read_text())
    assert written == case_schema(), (
        'write it again: python -c "import json; from servesmith.recipe.files import case_schema; '
        'print(json.dumps(case_schema(), indent=2))" > docs/recipe.schema.json'
    )


def test_schema_judges_as_we_do(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(case_schema())
    for path in (ROOT / "recipes").glob("**/*.yaml"):
        validator.validate(yamltext.parse(path.read_text()).data)
    validator.validate({"extends": "base.yaml", "flags": {"x": None}})
    for wrong in ({"name": "a"}, {"name": "a", "engine": "vlm"}, {"name": "a", "engine": "sim", "flgs": {}}):
        assert not validator.is_valid(wrong)
