"""Levers: named changes to a recipe, read from YAML, and what applying one means.

A library is a file `levers/<engine>.yaml` with `engine`, `spellings` (names that mean one flag) and `levers`.
A user's own file has the same form; it may leave out everything but `levers`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import cast

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from servesmith.errors import InputError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.files import read_text
from servesmith.recipe.model import EngineKind, Lever, Load, Noun, Recipe
from servesmith.recipe.paths import Path, as_mapping, join_dotted, merge, nested, resolve, split_dotted
from servesmith.recipe.problems import fields_below, nearest, problems_of
from servesmith.recipe.secrets import LEAK, leaks
from servesmith.recipe.yamltext import Document, Mark
from servesmith.units import Json

CHANGEABLE = ("flags", "env", "container", "image", "executable", "overlays", "gpus")
"""Fields that a lever may set. Another model or engine is another recipe, not a lever."""

_LONGEST_NAME = 80
_NAME = re.compile("[A-Za-z0-9]+([=.,_ -]{1,2}[A-Za-z0-9]+)*")


class Spelling(Noun):
    """Names of one flag, the usual one first, and of its off-switch besides `no-NAME`."""

    names: tuple[str, ...]
    negated: tuple[str, ...] = ()


class LeverFile(Noun):
    """A file of levers."""

    engine: EngineKind | None = None
    spellings: tuple[Spelling, ...] = ()
    levers: tuple[Lever, ...]


@dataclass(frozen=True)
class FlagId:
    """Which flag a spelling means, and whether it switches it off."""

    name: str
    off: bool = False


# --- reading


def read_levers(path: FilePath) -> tuple[Lever, ...]:
    """The levers of a user's file. Raises InputError with every problem found."""
    return _levers(_lever_file(read_text(path), str(path)))


def builtin_levers(engine: EngineKind) -> tuple[Lever, ...]:
    """The levers that come with servesmith for an engine; none if there is no library for it."""
    return _levers(_library(engine))


@cache
def _library(engine: EngineKind) -> LeverFile:
    source = resources.files("servesmith.recipe").joinpath("levers", f"{engine}.yaml")
    if not source.is_file():
        return LeverFile(engine=engine, levers=())
    return _lever_file(source.read_text(encoding="utf-8"), f"{engine}.yaml")


def combine(sources: Mapping[str, Sequence[Lever]], engine: EngineKind | None = None) -> tuple[Lever, ...]:
    """The levers of several sources as one library, exclusions made mutual. `sources`: by name, for messages.

    `engine`: whose spellings count; None: each lever's own. Raises InputError if two levers have one name.
    """
    first: dict[str, str] = {}
    problems: list[Problem] = []
    for source, levers in sources.items():
        for lever in levers:
            if lever.name in first:
                message = f"There are two levers {lever.name!r}; the other is in {first[lever.name]}."
                problems.append(Problem(message, "Give your own lever another name.", source, field=lever.name))
            first.setdefault(lever.name, source)
    if problems:
        raise InputError(*problems)
    return tuple(_with_exclusions([lever for levers in sources.values() for lever in levers], engine))


def _levers(file: LeverFile) -> tuple[Lever, ...]:
    return combine({"": [_for_engine(lever, file.engine) for lever in file.levers]})


def _for_engine(lever: Lever, engine: EngineKind | None) -> Lever:
    if engine is None or lever.when.engines:
        return lever
    return lever.model_copy(update={"when": lever.when.model_copy(update={"engines": (engine,)})})


def _with_exclusions(levers: Sequence[Lever], engine: EngineKind | None) -> Iterator[Lever]:
    """Each lever with all that it cannot be combined with: named by either side, or setting the same value."""
    for lever in levers:
        others = (other for other in levers if other.name != lever.name)
        both = [other.name for other in others if clash(lever, other, engine)]
        unseen = [name for name in lever.excludes if name not in both]
        yield lever.model_copy(update={"excludes": (*unseen, *both)})


def clash(one: Lever, other: Lever, engine: EngineKind | None) -> bool:
    """True if the two cannot be combined: either names the other, or they set the same value of a recipe.

    Spellings of this engine count as one flag (`flags.-np` and `flags.parallel`); None: each lever's own engine's.
    A whole value collides with each of its parts.
    """
    if one.name in other.excludes or other.name in one.excludes:
        return True
    pairs = ((a, b) for a in _targets(one, engine) for b in _targets(other, engine))
    return any(a[: len(b)] == b or b[: len(a)] == a for a, b in pairs)


def _targets(lever: Lever, engine: EngineKind | None) -> set[tuple[str, ...]]:
    """What a lever sets: top field and name, flags by what they mean, parts of a JSON flag by their path."""
    kind = engine or (lever.when.engines or ("sim",))[0]
    found: set[tuple[str, ...]] = set()
    for dotted, value in lever.set.items():
        path = split_dotted(dotted)
        if path[0] == "flags" and len(path) > 1:
            path = ("flags", flag_id(kind, path[1]).name, *path[2:])
        parts = value.keys() if isinstance(value, dict) else ()
        found |= {(*path, part) for part in parts} or {path}
    return found


# --- judging a file


def _lever_file(text: str, file: str) -> LeverFile:
    document = yamltext.parse(text, file)
    if isinstance(document.data, list):
        marks = {("levers", *path): mark for path, mark in document.marks.items()}
        document = Document({"levers": document.data}, {(): Mark(file, 1), **marks})
    problems = _set_problems(document)
    try:
        read = LeverFile.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        problems += problems_of(error, document.data, document.marks, _valid_names, _as_written)
    else:
        problems += _name_problems(read, document)
        if not problems:
            return read
    raise InputError(*sorted(problems, key=lambda problem: problem.line))


def _valid_names(path: Path) -> Sequence[str]:
    return fields_below(LeverFile, path)


def _as_written(path: Path) -> Path:
    return path


def _set_problems(document: Document) -> list[Problem]:
    """Paths of `set` that a lever cannot change, and `false`, which no command line can say."""
    problems: list[Problem] = []
    data = document.data
    levers = data.get("levers") if isinstance(data, dict) else None
    for index, lever in enumerate(levers if isinstance(levers, list) else ()):
        changes = lever.get("set") if isinstance(lever, dict) else None
        for dotted, value in changes.items() if isinstance(changes, dict) else ():
            found = _set_problem(dotted, value)
            if found:
                mark = document.mark(("levers", index, "set", dotted))
                field = join_dotted(("levers", index, "set", dotted))
                problems.append(Problem(*found, mark.file, mark.line, field))
    return problems


def _set_problem(dotted: str, value: Json) -> tuple[str, str] | None:
    try:
        path = split_dotted(dotted)
    except ValueError:
        return "Is no path.", "Write flags.parallel."
    if path[0] not in CHANGEABLE:
        return "Is nothing that a lever can set.", nearest(path[0], CHANGEABLE)
    if path[0] in ("flags", "env", "container") and len(path) == 1:
        return "Names no entry.", f"Write {path[0]}.NAME."
    if path[0] == "env" and value is not None and not isinstance(value, str):
        return "Needs text.", f'Put it in quotes: "{json.dumps(value)}".'
    if any(leaks(nested(path, value))):
        return LEAK
    if value is False:
        return "false says nothing on a command line.", "Write null to remove the flag, or set its off-switch to true."
    return None


def _name_problems(file: LeverFile, document: Document) -> list[Problem]:
    problems: list[Problem] = []
    names = [lever.name for lever in file.levers]
    known = sorted({*names, *(lever.name for lever in _known_levers(file))})
    for index, lever in enumerate(file.levers):
        for field, message, remedy in _lever_problems(lever, names[:index], known):
            mark = document.mark(("levers", index, *field))
            problems.append(Problem(message, remedy, mark.file, mark.line, join_dotted(("levers", index, *field))))
    return problems


def _known_levers(file: LeverFile) -> tuple[Lever, ...]:
    """Levers that a user's file may exclude besides its own."""
    if file.spellings:
        return ()
    engines: set[EngineKind] = {engine for lever in file.levers for engine in lever.when.engines}
    return tuple(lever for engine in {*engines, file.engine or "llamacpp"} for lever in _library(engine).levers)


def _lever_problems(
    lever: Lever, before: Sequence[str], known: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    if len(lever.name) > _LONGEST_NAME or not _NAME.fullmatch(lever.name):
        shown = lever.name if len(lever.name) <= _LONGEST_NAME else f"{lever.name[:_LONGEST_NAME]}..."
        remedy = f"Write at most {_LONGEST_NAME} letters and digits, joined by any of `=.,_-`."
        yield ("name",), f"{shown!r} cannot name a lever: it names files too.", remedy
    if lever.name in before:
        yield ("name",), f"There is another lever {lever.name!r}.", "Give each lever its own name."
    if not lever.set:
        yield ("set",), "Changes nothing.", "Write `set:` with a line such as `flags.parallel: 8`."
    for name in lever.excludes:
        if name not in known:
            yield ("excludes",), f"There is no lever {name!r}.", nearest(name, known)
    try:
        SpecifierSet(lever.when.versions)
    except InvalidSpecifier:
        yield ("when", "versions"), f"{lever.when.versions!r} is no range of versions.", "Write `>=0.20,<0.27`."


# --- what a flag means


def flag_id(engine: EngineKind, name: str) -> FlagId:
    """Which flag a spelling means: `-np` is `parallel`, `-no-kvu` switches `kv-unified` off."""
    plain = name if name.startswith("-") else name.replace("_", "-")
    known = _spellings(engine).get(plain)
    if known is not None:
        return known
    if plain.startswith("no-"):
        switched = _spellings(engine).get(plain[3:], FlagId(plain[3:]))
        return FlagId(switched.name, off=True)
    return FlagId(plain)


@cache
def _spellings(engine: EngineKind) -> Mapping[str, FlagId]:
    table: dict[str, FlagId] = {}
    for spelling in _library(engine).spellings:
        table |= {name: FlagId(spelling.names[0]) for name in spelling.names}
        table |= {name: FlagId(spelling.names[0], off=True) for name in spelling.negated}
    return table


# --- writing


def dump_levers(levers: Sequence[Lever]) -> str:
    """YAML that reads back as the same levers: a file of levers without spellings."""
    rows = [cast(Json, lever.model_dump(mode="json", exclude_defaults=True)) for lever in levers]
    return yamltext.dump({"levers": rows})


# --- applying


def apply(recipe: Recipe, lever: Lever) -> Recipe:
    """The recipe with the lever's changes; other spellings of a flag that it sets give way.

    Raises InputError if the result is no recipe.
    """
    data = cast(dict[str, Json], recipe.model_dump(mode="json"))
    for dotted, value in lever.set.items():
        path = resolve(data, split_dotted(dotted))
        if path[0] == "flags" and len(path) == 2:
            data["flags"] = _with_flag(recipe.engine, cast(dict[str, Json], data["flags"]), path[1], cast(Json, value))
        else:
            data = merge(data, nested(path, cast(Json, value)))
    if places := list(leaks(data)):
        raise InputError(*(Problem(*LEAK, f"lever {lever.name}", field=join_dotted(path)) for path in places))
    try:
        return Recipe.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        mark = {(): Mark(f"lever {lever.name}")}
        raise InputError(
            *problems_of(error, data, mark, lambda path: fields_below(Recipe, path), _as_written)
        ) from None


def _with_flag(engine: EngineKind, flags: Mapping[str, Json], name: str, value: Json) -> dict[str, Json]:
    """The flags with one set, in the place of the first of its spellings that is there."""
    meant = flag_id(engine, name).name
    result: dict[str, Json] = {}
    before: Json = None
    for other, held in flags.items():
        if flag_id(engine, other).name != meant:
            result[other] = held
        elif name not in result and value is not None:
            result[name], before = None, held
    if value is not None:
        over = {name: value}
        result[name] = merge({name: before}, over)[name] if isinstance(value, dict) else value
    return result


def applies(lever: Lever, recipe: Recipe, load: Load, platform: str, version: str, cores: int) -> str:
    """Why the lever cannot be tried on this recipe; empty if it can.

    `platform` is cpu, cuda or rocm; `version` is the engine's own, empty if unknown; `cores` are logical.
    """
    when = lever.when
    if when.engines and recipe.engine not in when.engines:
        return f"for {', '.join(when.engines)}, not {recipe.engine}"
    if when.platforms and platform not in when.platforms:
        return f"for {', '.join(when.platforms)}, not {platform}"
    if cores < when.min_cores:
        return f"needs {when.min_cores} cores, there are {cores}"
    if load.streams < when.min_streams:
        return f"needs {when.min_streams} streams, the load has {load.streams}"
    return _version_reason(when.versions, version) or _recipe_reason(lever, recipe)


def _version_reason(versions: str, version: str) -> str:
    if not versions:
        return ""
    try:
        fits = Version(version) in SpecifierSet(versions, prereleases=True)
    except InvalidVersion:
        return f"for versions {versions}, and the engine's is not known"
    return "" if fits else f"for versions {versions}, not {version}"


def _recipe_reason(lever: Lever, recipe: Recipe) -> str:
    held = {flag_id(recipe.engine, name).name: name for name in recipe.flags}
    for name in lever.when.unless_flags:
        meant = flag_id(recipe.engine, name).name
        if meant in held:
            return f"the recipe has {held[meant]}"
    return "already so" if _meaning(apply(recipe, lever)) == _meaning(recipe) else ""


def _meaning(recipe: Recipe) -> Mapping[str, object]:
    """The recipe with flags by what they mean, so that spellings and ways to write a value do not differ."""
    data = recipe.model_dump(mode="json", exclude={"flags", "name"})
    for name, value in recipe.flags.items():
        meant = flag_id(recipe.engine, name)
        known = as_mapping(cast(Json, value)) or (value if isinstance(value, (bool, list)) else str(value))
        data[f"flag {meant.name}"] = (meant.off, json.dumps(known, sort_keys=True))
    return data
