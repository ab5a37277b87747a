"""A recipe from the command that runs today: a process, or `docker run`.

The recipe prints the same command back (`command.command_of`), with three things put in order: the model comes
first, occurrences of one flag stand together, container options stand before `-e`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from servesmith.errors import InputError
from servesmith.recipe.argv import (
    COMMAND,
    Occurrence,
    command_problem,
    flag_name,
    grouped,
    is_flag,
    parse_flags,
    stray_word,
    text_of,
)
from servesmith.recipe.command import MODEL, MODEL_FLAGS, TOOL, usual_model_words
from servesmith.recipe.model import MOST_NAME, EngineKind, FlagValue, Recipe, Scalar
from servesmith.recipe.problems import problems_of
from servesmith.recipe.secrets import is_secret_flag, is_secret_name
from servesmith.recipe.shell import split_shell
from servesmith.recipe.yamltext import Mark

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
_TOOLS = frozenset({"docker", "podman", "nerdctl"})
_WRAPPERS = frozenset(
    ["numactl", "taskset", "nice", "ionice", "chrt", "nohup", "time", "stdbuf", "uv", "tini", "dumb-init"]
)
"""Commands that start another one with their own words before it; they stay in `executable` as they are."""
_MODULES: Mapping[str, EngineKind] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_IMAGES: tuple[tuple[str, EngineKind], ...] = (("vllm", "vllm"), ("sglang", "sglang"), ("llama", "llamacpp"))
"""What an image's name says about the engine that its entrypoint starts."""
_KNOWN = "`vllm serve`, `python -m vllm.entrypoints.openai.api_server`, `llama-server`, `sglang serve`, " + (
    "`python -m sglang.launch_server` or `docker run ... IMAGE ...`"
)
_BARE_OPTIONS = re.compile(
    "detach|interactive|tty|rm|init|privileged|read-only|no-healthcheck|oom-kill-disable|publish-all|sig-proxy|quiet|"
    "disable-content-trust|use-api-socket|replace|no-hosts|rmi"
)
"""Options of `docker run` and `podman run` without a value."""
_BARE_LETTERS = frozenset("ditPq")


@dataclass(frozen=True)
class Imported:
    """A recipe, and what could not be taken over as it was."""

    recipe: Recipe
    notes: tuple[str, ...] = ()


@dataclass
class Parts:
    """What is known of a recipe while it is put together."""

    words: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    image: str = ""
    container: dict[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    notes: list[str] = field(default_factory=list[str])


def recipe_from_shell(text: str, name: str = "") -> Imported:
    """The recipe of one shell command. Raises InputError."""
    return recipe_from_command(split_shell(text, home=_home()), name)


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a user without an entry
        return ""


def recipe_from_command(argv: Sequence[str], name: str = "") -> Imported:
    """The recipe of a command given as words (or as one word that holds it all). Raises InputError."""
    for word in argv:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InputError(command_problem("Has bytes that are not UTF-8.", "Write it as UTF-8.", repr(word)))
    words = split_shell(argv[0], home=_home()) if len(argv) == 1 and re.search(r"\s", argv[0].strip()) else list(argv)
    return assemble(unwrap(Parts(words)), name)


def unwrap(parts: Parts) -> Parts:
    """Take assignments, `env`, `exec` and `bash -c` off the front, and turn `docker run` into its parts."""
    while parts.words:
        first = parts.words[0].rpartition("/")[2]
        found = _ASSIGNMENT.fullmatch(parts.words[0])
        if found is not None:
            parts.env[found.group(1)] = found.group(2)
            parts.words = parts.words[1:]
        elif first in ("env", "exec") and len(parts.words) > 1 and not is_flag(parts.words[1]):
            parts.words = parts.words[1:]
        elif first == "sudo" and len(parts.words) > 1 and not is_flag(parts.words[1]):
            parts.notes.append("sudo is left out: start servesmith with the rights that the server needs.")
            parts.words = parts.words[1:]
        elif first in _SHELLS:
            parts.words = _inner_command(parts)
        elif first in _TOOLS and not parts.image:
            return _container(parts)
        else:
            break
    return parts


def _inner_command(parts: Parts) -> list[str]:
    words = parts.words
    if len(words) != 3 or not re.fullmatch(r"-[a-z]*c", words[1]):
        message = "Starts a shell with more than one command or with a script."
        raise InputError(command_problem(message, "Give the one command that starts the server.", words[0]))
    return split_shell(words[2], parts.env)


# --- containers


def _container(parts: Parts) -> Parts:
    """`docker run OPTIONS IMAGE WORDS`: options to `container` and `env`, and the words inside unwrapped."""
    tool, verb = parts.words[0], parts.words[1:2]
    if verb != ["run"]:
        message = f"`{' '.join([tool, *verb])}` does not say how a server is started."
        raise InputError(command_problem(message, "Give `docker run ...`, or the compose file.", tool))
    occurrences, rest = _options(parts.words[2:])
    if not rest:
        raise InputError(command_problem("Names no image.", "Put the image after the options.", " ".join(verb)))
    options, env = take_env(occurrences)
    container: dict[str, FlagValue] = {TOOL: tool} if tool != "docker" else {}
    container.update(grouped(options))
    return in_container(replace(parts, words=rest[1:], env={**parts.env, **env}, image=rest[0], container=container))


def in_container(parts: Parts) -> Parts:
    """Unwrap the words inside a container; an entrypoint counts as the first of them."""
    entrypoint = parts.container.get("entrypoint")
    if not isinstance(entrypoint, str):
        return unwrap(parts)
    inner = unwrap(replace(parts, words=[entrypoint, *parts.words]))
    if not inner.words:
        raise InputError(command_problem("Starts nothing.", "Give the command inside the container.", "entrypoint"))
    inner.container["entrypoint"] = inner.words[0]
    return inner


def _options(words: Sequence[str]) -> tuple[list[Occurrence], list[str]]:
    """The options of `docker run`, and what follows them: image and words."""
    occurrences: list[Occurrence] = []
    at = 0
    while at < len(words) and is_flag(words[at]):
        name, equals, value = words[at].partition("=")
        at += 1
        short = not name.startswith("--")
        if short and name[1] not in _BARE_LETTERS and len(name) > 2:
            name, equals, value = name[:2], "=", words[at - 1][2:].removeprefix("=")
        if equals:
            occurrences.append((flag_name(name), [value]))
        elif (set(name[1:]) <= _BARE_LETTERS) if short else _BARE_OPTIONS.fullmatch(name[2:]):
            occurrences.append((flag_name(name), []))
        elif at < len(words):
            occurrences.append((flag_name(name), [words[at]]))
            at += 1
        else:
            raise InputError(command_problem(f"The option {name} has no value.", "Give it one.", name))
    return occurrences, list(words[at:])


def take_env(occurrences: Sequence[Occurrence]) -> tuple[list[Occurrence], dict[str, str]]:
    """Split off `-e NAME=value`. `-e NAME` stays an option: the value comes from our own environment."""
    options: list[Occurrence] = []
    env: dict[str, str] = {}
    for name, values in occurrences:
        variable, equals, value = values[0].partition("=") if name in ("-e", "env") and values else ("", "", "")
        if equals:
            env[variable] = value
        else:
            options.append((name, values))
    return options, env


# --- from parts to a recipe


def assemble(parts: Parts, name: str = "") -> Imported:
    """The recipe of the parts. Raises InputError if no engine that we know is started."""
    entrypoint = parts.container.get("entrypoint") if parts.image else None
    engine, end = _launch(parts)
    executable, rest = parts.words[:end], parts.words[end:]
    model, place, flags = _model(engine, executable, rest)
    if entrypoint is not None:
        executable = executable[1:]
    env, container = _without_secrets(parts)
    for flag in [flag for flag, value in flags.items() if is_secret_flag(flag) and value is not True]:
        del flags[flag]
        parts.notes.append(f"The flag {flag} holds a secret, so it is left out of the recipe.")
    if not model:
        parts.notes.append("The command names no model: fill in `model`.")
    try:
        recipe = Recipe(
            name=name or _name(model or parts.image or engine),
            engine=engine,
            model=model,
            executable=(*executable, *place),
            image=parts.image,
            env=env,
            flags=flags,
            container=container,
        )
    except ValidationError as error:
        where = {(): Mark(COMMAND, 1)}
        raise InputError(*problems_of(error, {"name": name}, where, lambda _: (), lambda path: path)) from None
    return Imported(recipe, (*parts.notes, *_second_looks(recipe)))


def _second_looks(recipe: Recipe) -> Iterator[str]:
    """What was taken over as it stands but looks like a slip."""
    for flag in map(flag_name, MODEL_FLAGS[recipe.engine]):
        if recipe.model and isinstance(recipe.flags.get(flag), str):
            yield f"Two models are named: {recipe.model}, and {recipe.flags[flag]} by the flag {flag}. Delete one."
    for name, value in recipe.flags.items():
        words = [word for word in value if not isinstance(word, list)] if isinstance(value, list) else []
        if any(isinstance(word, str) for word in words) and any(not isinstance(word, str) for word in words):
            shown = " ".join(text_of(word) for word in words)
            yield f"All words up to the next flag became the value of {name}: {shown}. Is each meant for it?"


def _launch(parts: Parts) -> tuple[EngineKind, int]:
    """The engine, and how many words start it (0: the image's own entrypoint does)."""
    words = parts.words
    starts = range(len(words)) if words and words[0].rpartition("/")[2] in _WRAPPERS else range(min(1, len(words)))
    for start in starts:
        engine, end = _launch_at(words, start)
        if engine is not None:
            return engine, end
    if parts.image and "entrypoint" not in parts.container:
        for part, engine in _IMAGES:
            if part in parts.image.lower():
                return engine, 0
        if not parts.words or is_flag(parts.words[0]):
            message = f"The name of the image {parts.image} does not tell which engine its entrypoint starts."
            raise InputError(command_problem(message, "Put the engine's command after the image.", parts.image))
    shown = " ".join(words[:3]) or "(nothing)"
    message = f"`{shown}` starts no engine that is known here."
    raise InputError(command_problem(message, f"Give a command that begins with {_KNOWN}.", shown))


def _launch_at(words: Sequence[str], start: int) -> tuple[EngineKind | None, int]:
    program, after = words[start].rpartition("/")[2], list(words[start + 1 : start + 2])
    if program in ("vllm", "sglang") and after == ["serve"]:
        return cast(EngineKind, program), start + 2
    if program == "llama-server":
        return "llamacpp", start + 1
    if _PYTHON.fullmatch(program):
        at = start + 1
        while words[at : at + 1] and re.fullmatch(r"-[bBdEIOPqsSuvx]+", words[at]):
            at += 1
        if list(words[at : at + 1]) == ["-m"]:
            return _MODULES.get("".join(words[at + 1 : at + 2])), at + 2
    return None, start


def _model(
    engine: EngineKind, executable: Sequence[str], rest: Sequence[str]
) -> tuple[str, tuple[str, ...], dict[str, FlagValue]]:
    """The model, the words to add to the executable if it does not stand where it usually does, and the flags."""
    usual = usual_model_words(engine, executable)
    if rest and not is_flag(rest[0]):
        if engine == "llamacpp" or (executable and executable[-1] != "serve"):
            stray_word(rest[0])
        return rest[0], () if usual == (MODEL,) else (MODEL,), parse_flags(rest[1:])
    flags = parse_flags(rest)
    for flag in MODEL_FLAGS[engine]:
        value = flags.get(flag_name(flag))
        if value is not None and not isinstance(value, (list, dict, bool)):
            del flags[flag_name(flag)]
            return text_of(cast(Scalar, value)), () if usual == (flag, MODEL) else (flag, MODEL), flags
    if usual == (MODEL,) and "config" not in flags:
        message = "The model cannot be told from the flags' values."
        raise InputError(command_problem(message, "Put it right after `vllm serve`.", " ".join(executable)))
    return "", (), flags


def _without_secrets(parts: Parts) -> tuple[dict[str, str], dict[str, FlagValue]]:
    """The environment without secret values; a container gets them from our own environment."""
    env = {name: value for name, value in parts.env.items() if not is_secret_name(name)}
    secret = [name for name in parts.env if name not in env]
    parts.notes += [
        f"{name} looks like a secret, so its value is not kept: set it in the environment that starts servesmith."
        for name in secret
    ]
    container = dict(parts.container)
    if secret and parts.image:
        key = "env" if "env" in container else "-e"
        before = container.get(key, [])
        listed = before if isinstance(before, list) else [before]
        every = [item if isinstance(item, list) else [cast(Scalar, item)] for item in listed] + [[n] for n in secret]
        container[key] = every[0][0] if len(every) == 1 else every
    return env, container


def _name(source: str) -> str:
    """A recipe's name from a model's or an image's."""
    last = source.rstrip("/").rpartition("/")[2].partition("@")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last)[:MOST_NAME].strip("-._") or "recipe"
