"""Whatever words follow the flags: the command that a recipe prints is the command it came from."""

from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.recipe.argv import is_flag, json_object, json_text, parse_flags, scalar_of, text_of
from servesmith.recipe.command import command_line, command_of, render_flags
from servesmith.recipe.importers import recipe_from_command, recipe_from_shell

texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
numbers = st.one_of(
    st.integers().map(str), st.floats().map(repr), st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,3})?", fullmatch=True)
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3).map(json_text)
values = st.one_of(texts, numbers, objects)
names = st.from_regex(r"(--[a-z][a-z0-9_.-]{0,8}|-[a-z]{1,4})", fullmatch=True).filter(
    lambda name: name not in ("--model", "--config", "--hf-token", "--api-key", "-m", "-hf", "-hfr")
)
equals_words = st.builds("{}={}".format, names, values).map(lambda word: [word])
several = st.builds(
    lambda name, words: [name, *words], names, st.lists(values.filter(lambda v: not is_flag(v)), max_size=3)
)


def name_of(words):
    return words[0].partition("=")[0]


commands = st.lists(st.one_of(equals_words, several), max_size=5, unique_by=name_of)


def joined(parts):
    return [word for part in parts for word in part]


def spread(words):
    out = []
    for word in words:
        flag, equals, value = word.partition("=")
        out += [flag, value] if is_flag(word) and equals else [word]
    return out


@settings(max_examples=50)
@given(commands)
def test_same_words_back(parts):
    words = ["vllm", "serve", "m", *joined(parts)]
    assert spread(command_of(recipe_from_command(words).recipe)) == spread(words)


@settings(max_examples=50)
@given(st.lists(st.one_of(equals_words, several), max_size=6))
def test_repeated_flags_are_put_together_in_order(parts):
    words = joined(parts)
    rendered = render_flags(parse_flags(words), equals=True)
    order = list(dict.fromkeys(name_of(part) for part in parts))
    expected = [word for name in order for part in parts if name_of(part) == name for word in spread(part)]
    assert spread(rendered) == expected
    assert render_flags(parse_flags(rendered), equals=True) == rendered


@settings(max_examples=50)
@given(commands)
def test_llama_server_gets_no_equals(parts):
    words = ["llama-server", "-m", "x.gguf", *joined(parts)]
    assert command_of(recipe_from_command(words).recipe) == spread(words)


@settings(max_examples=50)
@given(commands, st.dictionaries(st.from_regex(r"[A-Z]{1,5}", fullmatch=True), texts, max_size=3))
def test_same_line_back_through_a_shell(parts, env):
    recipe = recipe_from_command([*(f"{k}={v}" for k, v in env.items()), "vllm", "serve", "m", *joined(parts)]).recipe
    assert recipe_from_shell(command_line(recipe)).recipe == recipe


@given(st.one_of(numbers, texts))
def test_numbers_print_back_the_same(text):
    assert text_of(scalar_of(text)) == text


@given(objects)
def test_compact_json_is_kept_as_a_mapping(text):
    assert json_text(json_object(text)) == text
