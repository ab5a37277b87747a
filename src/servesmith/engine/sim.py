"""The adapter of the sim engine: a recipe's flags are the options of simserver.py."""

import difflib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from servesmith.engine import failures
from servesmith.engine.base import Command, Facts, Failure
from servesmith.engine.simmodel import SimOptions
from servesmith.errors import InputError, Problem
from servesmith.recipe.command import render_flags
from servesmith.recipe.model import Recipe

_SAID = "sim "
VIRTUAL = ("virtual",)
"""As the executable of a recipe: virtual time, no process."""
_TYPES: dict[str, type[object]] = {name.replace("_", "-"): type(value) for name, value in asdict(SimOptions()).items()}


LEAST = {"slots": 1, "tokens-per-chunk": 1, "ctx": 1, "start": -1, "hang-after": -1, "crash-after": -1}
"""Smallest values where that is not 0."""


class Sim:
    """The adapter of the sim engine."""

    def command(self, recipe: Recipe, port: int) -> Command:
        """See `Adapter.command`. The model and the served name of the recipe are only names here."""
        if recipe.executable and recipe.executable != VIRTUAL:
            raise InputError(
                Problem("The sim engine is no program.", "Leave it out, or say [virtual].", field="executable")
            )
        flags = {name.lstrip("-"): value for name, value in recipe.flags.items() if value is not False}
        problems = [problem for name, value in flags.items() if (problem := _problem(name, value))]
        if problems:
            raise InputError(*problems)
        name = recipe.served_name or recipe.model
        named = ["--model-name", name] if name and "model-name" not in flags else []
        head = (sys.executable, "-P", "-m", "servesmith.engine.simserver", "--port", str(port), *named)
        return Command((*head, *render_flags(flags, equals=True)), dict(recipe.env))

    def facts(self, log: Iterable[str], properties: dict[str, object]) -> Facts:
        """See `Adapter.facts`. Every option is a fact."""
        for line in log:
            if line.startswith(_SAID + "{"):
                options: dict[str, object] = json.loads(line.removeprefix(_SAID))
                return Facts("sim", "1", {name: str(value) for name, value in options.items()})
        return Facts("sim", "1", {name: json.dumps(value) for name, value in properties.items()})

    def version(self) -> str:
        """See `Adapter.version`."""
        return "1"

    def property_paths(self) -> tuple[str, ...]:
        """See `Adapter.property_paths`."""
        return ("/props",)

    def failure(self, log: Iterable[str], exit_code: int | None) -> Failure:
        """See `Adapter.failure`."""
        return failures.classify(log, exit_code)

    def known_flags(self) -> frozenset[str] | None:
        """Every option."""
        return frozenset(_TYPES)


def options_of(recipe: Recipe) -> SimOptions:
    """The options that a recipe stands for. Raises InputError on flags that the sim engine does not have."""
    problems = [problem for name, value in recipe.flags.items() if (problem := _problem(name, value))]
    if problems:
        raise InputError(*problems)
    given: dict[str, Any] = {name.replace("-", "_"): value for name, value in recipe.flags.items()}
    return SimOptions(**given)


def _problem(name: str, value: object) -> Problem | None:
    if name == "port" or name not in _TYPES:
        nearest = difflib.get_close_matches(name, [known for known in _TYPES if known != "port"], n=1)
        remedy = f"Did you mean {nearest[0]}?" if nearest else f"It has {', '.join(sorted(_TYPES))}."
        message = "The port is servesmith's to choose." if name == "port" else f"The sim engine has no flag {name}."
        return Problem(message, "Take it out." if name == "port" else remedy, field=f"flags.{name}")
    wanted = _TYPES[name]
    fits = type(value) is wanted or (wanted is float and type(value) is int)
    if fits and isinstance(value, (int, float)) and value < LEAST.get(name, 0):
        return Problem(f"{value!r} is too small.", f"It is at least {LEAST.get(name, 0)}.", field=f"flags.{name}")
    return None if fits else Problem(f"{value!r} is no {wanted.__name__}.", "Correct it.", field=f"flags.{name}")
