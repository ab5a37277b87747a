"""The lever library, and what applying a lever means."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import InputError
from servesmith.recipe.command import command_of
from servesmith.recipe.levers import applies, apply, builtin_levers, clash, combine, flag_id, read_levers
from servesmith.recipe.model import Lever, Load, Recipe, When

LIBRARY = {lever.name: lever for lever in builtin_levers("llamacpp")}


def recipe(**flags):
    return Recipe(name="a", engine="llamacpp", model="m", flags=flags)


def lever(**changes):
    return Lever.model_validate({"name": "l", "why": "w", "risk": "lossless", "set": {"flags.x": 1}, **changes})


def says(lever, recipe, **known):
    known = {"load": Load(streams=16), "platform": "cpu", "version": "", "cores": 8, **known}
    return applies(lever, recipe, **known)


# --- the library


def test_library_has_what_the_first_tune_needs():
    flags = {path for one in LIBRARY.values() for path in one.set}
    wanted = {"parallel", "threads", "threads-batch", "batch-size", "ubatch-size", "flash-attn", "cache-type-k"}
    wanted |= {"cache-type-v", "no-kv-unified", "cache-ram", "spec-type"}
    assert {f"flags.{name}" for name in wanted} <= flags
    assert {LIBRARY[name].set["flags.spec-type"] for name in ("ngram-simple", "ngram-mod")} == {
        "ngram-simple",
        "ngram-mod",
    }


@pytest.mark.parametrize("name", LIBRARY)
def test_every_lever_says_why_and_where_it_was_seen(name):
    one = LIBRARY[name]
    assert one.source.startswith("https://github.com/")
    assert one.why.endswith(".")
    assert 0 < one.bound <= 1
    assert one.when.engines == ("llamacpp",)
    assert command_of(apply(recipe(), one))


def test_risks():
    assert {LIBRARY[name].risk for name in ("parallel-8", "ngram-simple", "ngram-mod", "threads-4", "ubatch-128")} == {
        "lossless"
    }
    assert {LIBRARY[name].risk for name in ("kv-q8", "cache-type-k-q8", "flash-attn-off")} == {"numerics"}
    assert LIBRARY["kv-q4"].risk == "lossy"


def test_exclusions_are_mutual_and_cover_levers_that_set_the_same_flag():
    for one in LIBRARY.values():
        assert one.name not in one.excludes
        assert all(one.name in LIBRARY[other].excludes for other in one.excludes)
    assert "parallel-16" in LIBRARY["parallel-8"].excludes
    assert "flash-attn-off" in LIBRARY["kv-q8"].excludes
    assert "threads-4" not in LIBRARY["parallel-8"].excludes


def test_any_two_levers_that_do_not_exclude_each_other_commute():
    for one in LIBRARY.values():
        for other in LIBRARY.values():
            if one.name != other.name and other.name not in one.excludes:
                assert apply(apply(recipe(), one), other) == apply(apply(recipe(), other), one)


def test_no_library_no_levers():
    assert builtin_levers("endpoint") == ()


# --- applying


def test_other_spellings_give_way_in_place():
    after = apply(recipe(**{"a": 1, "-np": 4, "b": 2, "parallel": 5}), lever(set={"flags.parallel": 8}))
    assert list(after.flags.items()) == [("a", 1), ("parallel", 8), ("b", 2)]


@pytest.mark.parametrize("held", ["kv-unified", "-kvu", "no-kv-unified", "-no-kvu", "kv_unified"])
def test_switches_give_way_too(held):
    assert apply(recipe(**{held: True}), lever(set={"flags.no-kv-unified": True})).flags == {"no-kv-unified": True}


def test_null_removes_every_spelling():
    assert apply(recipe(**{"-t": 4, "threads": 8, "x": 1}), lever(set={"flags.threads": None})).flags == {"x": 1}


@pytest.mark.parametrize("held", [{"m": 1, "k": {"a": 1}}, '{"m":1, "k": {"a":1}}'])
def test_mappings_merge_into_json(held):
    after = apply(recipe(c=held), lever(set={"flags.c": {"n": 2, "k": {"b": 2}}}))
    assert after.flags == {"c": {"m": 1, "k": {"a": 1, "b": 2}, "n": 2}}


def test_paths_into_json_and_dotted_flags():
    change = lever(set={"flags.c.n": 2})
    assert apply(recipe(), change).flags == {"c": {"n": 2}}
    assert apply(recipe(c='{"m":1}'), change).flags == {"c": {"m": 1, "n": 2}}
    assert apply(recipe(**{"c.n": 1}), change).flags == {"c.n": 2}
    assert apply(recipe(c={"m": 1, "n": 1}), lever(set={"flags.c.n": None})).flags == {"c": {"m": 1}}


def test_env_image_and_gpus():
    changes = {"env.A": "1", "env.B": None, "image": "i@sha256:0", "gpus": [1], "container.shm-size": "8g"}
    before = recipe().model_copy(update={"env": {"B": "2"}})
    after = apply(before, lever(set=changes))
    assert (after.env, after.image, after.gpus, after.container) == ({"A": "1"}, "i@sha256:0", (1,), {"shm-size": "8g"})


def test_a_lever_that_makes_no_recipe_is_refused_by_name():
    with pytest.raises(InputError, match="lever l"):
        apply(recipe(), lever(set={"gpus": "all"}))


def test_apply_changes_nothing_else():
    before = recipe(x=1)
    after = apply(before, lever(set={"flags.y": 2}))
    assert before.flags == {"x": 1}
    assert after.model_copy(update={"flags": before.flags}) == before


@given(st.sampled_from(sorted(LIBRARY)))
def test_applied_twice_is_applied_once(name):
    once = apply(recipe(), LIBRARY[name])
    assert apply(once, LIBRARY[name]) == once
    assert once != recipe()


# --- where a lever applies


@pytest.mark.parametrize(
    ("held", "change"),
    [
        ({"parallel": 8}, {"flags.parallel": 8}),
        ({"-np": 8}, {"flags.parallel": 8}),
        ({"n_parallel": "8"}, {"flags.parallel": 8}),
        ({"-fa": "on"}, {"flags.flash-attn": "on"}),
        ({"-no-kvu": True}, {"flags.no-kv-unified": True}),
        ({"c": '{"a": 1, "b": 2}'}, {"flags.c": {"b": 2}}),
        ({}, {"flags.x": None}),
        ({"x": 1, "y": 2}, {"flags.x": 1, "flags.y": 2}),
    ],
)
def test_already_so(held, change):
    assert says(lever(set=change), recipe(**held)) == "already so"


@pytest.mark.parametrize(
    ("held", "change"),
    [
        ({"parallel": 4}, {"flags.parallel": 8}),
        ({"kv-unified": True}, {"flags.no-kv-unified": True}),
        ({"x": True}, {"flags.x": 1}),
        ({"x": "true"}, {"flags.x": True}),
        ({"x": 1}, {"flags.x": 1, "flags.y": 2}),
        ({"x": [1, 2]}, {"flags.x": [2, 1]}),
    ],
)
def test_not_yet_so(held, change):
    assert says(lever(set=change), recipe(**held)) == ""


@pytest.mark.parametrize(
    ("when", "known", "reason"),
    [
        ({"engines": ["vllm"]}, {}, "for vllm, not llamacpp"),
        ({"engines": ["vllm", "llamacpp"]}, {}, ""),
        ({"platforms": ["cuda"]}, {}, "for cuda, not cpu"),
        ({"platforms": ["cuda"]}, {"platform": "cuda"}, ""),
        ({"min_cores": 9}, {}, "needs 9 cores, there are 8"),
        ({"min_cores": 8}, {}, ""),
        ({"min_streams": 17}, {}, "needs 17 streams, the load has 16"),
        ({"min_streams": 16}, {}, ""),
        ({"versions": ">=2"}, {"version": "1.9"}, "for versions >=2, not 1.9"),
        ({"versions": ">=2"}, {"version": "2.1rc1"}, ""),
        ({"versions": ">=2"}, {"version": ""}, "for versions >=2, and the engine's is not known"),
        ({"versions": ">=2"}, {"version": "b6700-dirty?"}, "for versions >=2, and the engine's is not known"),
        ({"versions": ""}, {"version": "?"}, ""),
        ({"unless_flags": ["parallel"]}, {"recipe": recipe(**{"-np": 2})}, "the recipe has -np"),
        ({"unless_flags": ["parallel"]}, {"recipe": recipe(**{"-npx": 2})}, ""),
    ],
)
def test_conditions(when, known, reason):
    known = dict(known)
    held = known.pop("recipe", recipe())
    assert says(lever(when=When.model_validate(when)), held, **known) == reason


def test_slots_ask_for_streams():
    assert says(LIBRARY["parallel-8"], recipe(), load=Load(streams=4)) == "needs 5 streams, the load has 4"
    assert says(LIBRARY["parallel-16"], recipe(), load=Load(streams=16)) == ""


def test_flag_ids():
    assert flag_id("llamacpp", "-np") == flag_id("llamacpp", "parallel") == flag_id("llamacpp", "n_parallel")
    assert flag_id("llamacpp", "-no-kvu") == flag_id("llamacpp", "no-kv-unified")
    assert replace(flag_id("llamacpp", "no-kv-unified"), off=False) == flag_id("llamacpp", "-kvu")
    assert flag_id("vllm", "max_num_seqs") == flag_id("vllm", "max-num-seqs")
    assert flag_id("vllm", "no-enable-prefix-caching").name == "enable-prefix-caching"


# --- a user's own file

OWN = """\
- name: my-lever
  why: It may help here.
  risk: numerics
  set:
    flags.poll: 0
  excludes: [parallel-8]
"""


def test_own_file_joins_the_library(tmp_path):
    path = tmp_path / "levers.yaml"
    path.write_text(OWN)
    own = read_levers(path)
    assert [one.name for one in own] == ["my-lever"]
    joined = {one.name: one for one in combine({"library": builtin_levers("llamacpp"), "own": own})}
    assert "my-lever" in joined["parallel-8"].excludes
    assert joined["my-lever"].excludes == ("parallel-8",)
    path.write_text("engine: vllm\nlevers:\n" + OWN.replace("excludes: [parallel-8]", "").replace("- name", "- name"))
    assert read_levers(path)[0].when.engines == ("vllm",)


def test_a_name_of_the_library_is_taken():
    with pytest.raises(InputError, match="another name"):
        combine({"library": builtin_levers("llamacpp"), "own.yaml": [lever(name="parallel-8")]})


@pytest.mark.parametrize("name", ["x" * 81, "a/b", "..", "-a", "a----b"])
def test_names_that_make_no_folder(tmp_path, name):
    path = tmp_path / "l.yaml"
    path.write_text(f"levers: [{{name: '{name}', why: w, risk: lossless, set: {{flags.x: 1}}}}]\n")
    with pytest.raises(InputError, match=r"levers\.0\.name"):
        read_levers(path)


@pytest.mark.parametrize(
    ("one", "other", "engine", "says"),
    [
        ({"flags.-np": 8}, {"flags.parallel": 4}, "llamacpp", True),
        ({"flags.-np": 8}, {"flags.parallel": 4}, "sim", False),
        ({"flags.-no-kvu": True}, {"flags.kv-unified": True}, "llamacpp", True),
        ({"flags.j": {"a": 1}}, {"flags.j": {"b": 1}}, "vllm", False),
        ({"flags.j.a": 1}, {"flags.j": {"a": 2, "b": 1}}, "vllm", True),
        ({"flags.j": None}, {"flags.j.a": 2}, "vllm", True),
        ({"env.A": "1"}, {"flags.A": 1}, "vllm", False),
    ],
)
def test_what_clashes(one, other, engine, says):
    a, b = lever(name="a", set=one), lever(name="b", set=other)
    assert clash(a, b, engine) == clash(b, a, engine) == says


def test_levers_that_name_each_other_clash():
    a, b = lever(name="a", set={"flags.x": 1}, excludes=["b"]), lever(name="b", set={"flags.y": 1})
    assert clash(a, b, "sim")
    assert clash(b, a, "sim")


def test_one_name_in_two_files_names_both():
    with pytest.raises(InputError) as caught:
        combine({"one.yaml": [lever()], "two.yaml": [lever()]})
    assert "one.yaml" in str(caught.value)
    assert "two.yaml" in str(caught.value)
