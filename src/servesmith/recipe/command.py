"""A recipe to the words of its command: the inverse of the importers."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from servesmith.errors import InputError, Problem
from servesmith.recipe.argv import json_text, text_of
from servesmith.recipe.model import EngineKind, FlagValue, Recipe, Scalar
from servesmith.recipe.secrets import is_secret_name, mask_words

MODEL = "{model}"
"""Stands for the model in `executable`; without it the model goes where the engine's own documentation puts it."""
TOOL = "tool"
"""The one key of `container` that is no option of `docker run`: docker (when missing) or podman."""

MODEL_FLAGS: Mapping[EngineKind, tuple[str, ...]] = {
    "vllm": ("--model",),
    "sglang": ("--model-path", "--model"),
    "llamacpp": ("-m", "--model", "-hf", "-hfr", "--hf-repo"),
}
"""Flags that name the model, the usual one first."""
_DEFAULT_EXECUTABLE: Mapping[EngineKind, tuple[str, ...]] = {
    "vllm": ("vllm", "serve"),
    "sglang": ("python", "-m", "sglang.launch_server"),
    "llamacpp": ("llama-server",),
}
_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def render_flags(flags: Mapping[str, FlagValue], *, equals: bool) -> list[str]:
    """The flags as words. `equals`: the engine takes `--flag=value`, used where a value starts with a dash.

    Raises InputError for false, which no command line can say.
    """
    words: list[str] = []
    for name, value in flags.items():
        for values in _occurrences(name, value):
            words.extend(_words(name if name.startswith("-") else f"--{name}", values, equals=equals))
    return words


def _occurrences(name: str, value: FlagValue) -> list[list[str]]:
    """Every time the flag is written, with its values."""
    if value is False:
        remedy = f"Write `no-{name}: true` if the engine has that flag, or delete it."
        raise InputError(Problem("false says nothing on a command line.", remedy, field=f"flags.{name}"))
    if value is True:
        return [[]]
    if isinstance(value, dict):
        return [[json_text(value)]]
    if not isinstance(value, list):
        return [[text_of(value)]]
    if value and all(isinstance(item, list) for item in value):
        return [[text_of(item) for item in items] for items in cast(list[list[Scalar]], value)]
    return [[text_of(item) for item in cast(list[Scalar], value)]]


def _words(flag: str, values: Sequence[str], *, equals: bool) -> list[str]:
    if equals and len(values) == 1 and values[0].startswith("-") and not _NUMBER.fullmatch(values[0]):
        return [f"{flag}={values[0]}"]
    return [flag, *values]


def takes_equals(engine: EngineKind) -> bool:
    """False for llama-server, which knows only `--flag value`."""
    return engine != "llamacpp"


def engine_words(recipe: Recipe) -> list[str]:
    """Executable, model and flags, without any container around them."""
    executable = recipe.executable or (() if recipe.image else _DEFAULT_EXECUTABLE.get(recipe.engine, ()))
    return [*_with_model(recipe, executable), *render_flags(recipe.flags, equals=takes_equals(recipe.engine))]


def _with_model(recipe: Recipe, executable: Sequence[str]) -> list[str]:
    if MODEL in executable:
        return [recipe.model if word == MODEL else word for word in executable]
    if not recipe.model:
        return list(executable)
    usual = usual_model_words(recipe.engine, executable)
    return [*executable, *(recipe.model if word == MODEL else word for word in usual)]


def usual_model_words(engine: EngineKind, executable: Sequence[str]) -> tuple[str, ...]:
    """How the model follows this executable: by position after `vllm serve`, else by the engine's usual flag."""
    if engine == "vllm" and executable and executable[-1] == "serve":
        return (MODEL,)
    return (MODEL_FLAGS[engine][0], MODEL) if engine in MODEL_FLAGS else ()


def command_of(recipe: Recipe) -> list[str]:
    """The words that start the recipe, container included; the environment of a process is not among them.

    Values of secret variables are never among them either: a container takes those from our own environment.
    Raises InputError for an engine that no command starts.
    """
    if recipe.engine not in MODEL_FLAGS:
        message = f"An engine of kind {recipe.engine} has no command."
        raise InputError(Problem(message, "Use a vllm, sglang or llamacpp recipe.", field="engine"))
    if not recipe.image:
        return engine_words(recipe)
    options = {name: value for name, value in recipe.container.items() if name != TOOL}
    env = [word for item in recipe.env.items() for word in ("-e", _env_word(*item))]
    tool = str(recipe.container.get(TOOL, "docker"))
    return [tool, "run", *render_flags(options, equals=True), *env, recipe.image, *engine_words(recipe)]


def _env_word(name: str, value: str) -> str:
    return name if is_secret_name(name) else f"{name}={value}"


def shell_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """One line for a POSIX shell. Secret variables are named; their values and those of secret flags are not shown."""
    variables = (f'{name}="${name}"' if is_secret_name(name) else f"{name}={shlex.quote(env[name])}" for name in env)
    return " ".join([*variables, shlex.join(mask_words(argv))])


def command_line(recipe: Recipe) -> str:
    """`command_of` with the environment, as one line for a POSIX shell."""
    return shell_line(command_of(recipe), {} if recipe.image else recipe.env)
