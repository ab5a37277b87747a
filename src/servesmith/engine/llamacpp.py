"""llama.cpp: the embedded server by default, a llama-server binary where the recipe names one. Same flag names."""

import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from servesmith.engine import failures
from servesmith.engine.base import Command, Facts, Failure
from servesmith.engine.facts import read_facts
from servesmith.engine.llamaflags import KNOWN, FlagError, lookup, parse
from servesmith.engine.ports import LOOPBACK
from servesmith.errors import InputError, MachineError, Problem
from servesmith.recipe.command import MODEL, render_flags
from servesmith.recipe.model import FlagValue, Recipe

PACKAGE = "package:"
OURS = frozenset({"host", "port", "reuse-port"})
"""Where a server listens is servesmith's to decide; these flags of a recipe are left out."""
_ADDED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("metrics", ("--metrics",)),
    # the level at which llama.cpp says what it resolved: flash attention, KV cache, threads, speculation
    ("verbosity", ("--verbosity", "4")),
)
INSTALL = "Install it: pip install 'servesmith[local]'"


class LlamaCpp:
    """The adapter of llama.cpp."""

    def command(self, recipe: Recipe, port: int) -> Command:
        """See `Adapter.command`. Flags are checked only for the embedded engine; a binary checks its own."""
        flags = canonical({name: value for name, value in recipe.flags.items() if _bare(name) not in OURS})
        model = resolve_model(recipe.model)
        if recipe.executable:
            head = _binary(recipe.executable, model)
        else:
            _refuse(recipe, flags)
            head = (*_embedded(), "--model", model)
        words = [*head, "--host", LOOPBACK, "--port", str(port)]
        if recipe.served_name and "alias" not in flags:
            words += ["--alias", recipe.served_name]
        words += [word for name, added in _ADDED if name not in flags for word in added]
        return Command((*words, *render_flags(flags, equals=False)), dict(recipe.env))

    def facts(self, log: Iterable[str], properties: dict[str, object]) -> Facts:
        """See `Adapter.facts`."""
        return read_facts(log, properties)

    def version(self) -> str:
        """See `Adapter.version`: of the embedded build."""
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version("xllamacpp")
        return ""

    def property_paths(self) -> tuple[str, ...]:
        """See `Adapter.property_paths`."""
        return ("/props", "/slots")

    def failure(self, log: Iterable[str], exit_code: int | None) -> Failure:
        """See `Adapter.failure`."""
        return failures.classify(log, exit_code)

    def known_flags(self) -> frozenset[str] | None:
        """Every spelling that the embedded engine honours, and those that servesmith sets itself."""
        return KNOWN | OURS


def _bare(name: str) -> str:
    return name.lstrip("-")


def canonical(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Known flags by their canonical long name, `false` as the spelling that switches off; others as they are."""
    renamed: dict[str, FlagValue] = {}
    for given, value in flags.items():
        name, value = _canonical(given, value)
        if name:
            renamed[name if name not in renamed else given] = value
    return renamed


def _canonical(given: str, value: FlagValue) -> tuple[str, FlagValue]:
    """Name and value of one flag; an empty name where `false` only repeats the default."""
    found = lookup(_bare(given))
    if found is None:
        return given, value
    flag, positive = found
    if flag.read is not None:
        return flag.name, _word_for(flag.read, value) if isinstance(value, bool) else value
    if not isinstance(value, bool) or not isinstance(flag.fixed, bool):
        return given, value
    if value == positive:
        return flag.name, True
    return (flag.negative[0], True) if flag.negative else ("", False)


def _word_for(read: object, value: bool) -> FlagValue:  # noqa: FBT001 (it is the value of a flag)
    """YAML's true and false for flags that want on or off, 1 or 0."""
    for word in ("on", "1") if value else ("off", "0"):
        try:
            if callable(read):
                read(word)
                return word
        except FlagError:
            continue
    return value


def _refuse(recipe: Recipe, flags: Mapping[str, FlagValue]) -> None:
    """Raise InputError with every flag and variable that the embedded engine would not honour."""
    problems = [problem for name, value in recipe.flags.items() for problem in _refused(name, value)]
    if not problems:
        try:
            parse(render_flags(flags, equals=False))
        except FlagError as error:
            problems.append(Problem(f"{error}.", "Write it once.", field="flags"))
    problems += [
        Problem(
            "The embedded engine reads no variables of llama-server.", "Write the flag instead.", field=f"env.{name}"
        )
        for name in recipe.env
        if name.startswith("LLAMA_ARG_")
    ]
    if problems:
        raise InputError(*problems)


def _refused(name: str, value: FlagValue) -> tuple[Problem, ...]:
    if _bare(name) in OURS:
        return ()
    if _bare(name) in ("model", "m"):
        return (Problem("The model is a field of its own.", "Write it as `model:`.", field=f"flags.{name}"),)
    try:
        parse(render_flags(canonical({name: value}), equals=False))
    except FlagError as error:
        return (Problem(f"{error}.", "Correct it or take it out.", field=f"flags.{name}"),)
    except InputError as error:
        return error.problems
    return ()


def _embedded() -> tuple[str, ...]:
    if importlib.util.find_spec("xllamacpp") is None:
        raise MachineError("The embedded engine (xllamacpp) is not installed.", INSTALL)
    return (sys.executable, "-P", "-m", "servesmith.engine.llamaserver")


def _binary(executable: tuple[str, ...], model: str) -> tuple[str, ...]:
    if shutil.which(executable[0]) is None:
        raise MachineError(
            f"{executable[0]} is not on PATH.",
            "Install llama.cpp, give its full path as `executable`, or leave `executable` out for the embedded engine.",
        )
    if MODEL in executable:
        return tuple(model if word == MODEL else word for word in executable)
    return (*executable, "--model", model) if model else executable


def resolve_model(model: str) -> str:
    """Path of a model: `package:NAME/FILE` is looked up in an installed Python package, without importing it."""
    if not model.startswith(PACKAGE):
        return model
    package, _, file = model.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise MachineError(f"The package {package}, which carries the model, is not installed.", INSTALL)
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file():
        there = ", ".join(sorted(item.name for item in path.parent.glob("*.gguf"))) or "no GGUF file"
        raise MachineError(f"The package {package} has no file {file!r}.", f"It has {there}.")
    return str(path)
