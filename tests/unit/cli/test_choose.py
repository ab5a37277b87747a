"""Which levers a tune tries: the library's and the user's own, as one."""

import pytest

from servesmith.cli.tune import choose
from servesmith.errors import InputError
from servesmith.recipe.levers import dump_levers, read_levers
from servesmith.recipe.model import Case, Recipe

CASE = Case(recipe=Recipe(name="a", engine="llamacpp", model="m"))


def own(path, name, change):
    path.write_text(f"levers: [{{name: {name}, why: w, risk: lossless, set: {{{change}}}}}]\n")
    return path


def test_own_levers_exclude_those_of_the_library_that_set_the_same(tmp_path):
    levers = {lever.name: lever for lever in choose(CASE, [own(tmp_path / "l.yaml", "mine", "flags.-np: 3")], [], [])}
    assert "parallel-8" in levers["mine"].excludes
    assert "mine" in levers["parallel-8"].excludes


def test_one_name_twice_is_refused_with_both_files(tmp_path):
    files = [own(tmp_path / "one.yaml", "mine", "flags.a: 1"), own(tmp_path / "two.yaml", "mine", "flags.b: 1")]
    with pytest.raises(InputError) as caught:
        choose(CASE, files, [], [])
    assert all(file.name in str(caught.value) for file in files)


def test_what_is_chosen_can_be_read_again_by_a_resumed_run(tmp_path):
    file = own(tmp_path / "l.yaml", "mine", "flags.-np: 3")
    chosen = choose(CASE, [file], ["parallel-8"], [])
    again = tmp_path / "levers.yaml"
    again.write_text(dump_levers(chosen))
    assert read_levers(again) == chosen
