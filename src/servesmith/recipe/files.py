"""Recipe files: read with every error at once, inherit, override, edit, write.

A file's top-level keys are the fields of Recipe, the sections workload, load, goal and quality, and
`extends: other.yaml` (relative to the file): mappings of the two are merged deeply, null removes.
"""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from servesmith.errors import InputError, MachineError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.model import Case, Recipe
from servesmith.recipe.paths import Path, join_dotted, merge, nested, resolve, set_path, split_dotted
from servesmith.recipe.presets import named_preset, preset_layers, preset_names
from servesmith.recipe.problems import fields_below, is_single, nearest, problems_of
from servesmith.recipe.secrets import LEAK, leaks
from servesmith.recipe.yamltext import Document, Layout, Mark, nearest_mark
from servesmith.units import Json

__all__ = ["bare_url", "case_schema", "dump_case", "edit_file", "read_case", "read_text", "set_path", "write_text"]

SECTIONS = tuple(name for name in Case.model_fields if name != "recipe")
TOP_FIELDS = (*Recipe.model_fields, *SECTIONS)
"""What may stand at the left edge of a recipe file, besides `extends`."""
_FIELDS = (Recipe, Case)
"""The types whose fields stand at the left edge."""
_OPEN = ("flags", "container")
_FREE = (("workload", "extra"), ("workload", "chat_template_kwargs"))
_LONGEST_CHAIN = 20

Marks = dict[Path, Mark]


def read_case(path: FilePath, sets: Sequence[str] = ()) -> Case:
    """The case of a recipe file with `a.b=c` settings on top. Raises InputError with every problem found."""
    documents = [*_chain(path), *_settings(sets)]
    return _case_of(documents, path)


def _case_of(documents: Sequence[Document], path: FilePath) -> Case:
    data, marks, problems = _merged(documents)
    marks[()] = Mark(str(path), 1)
    case = {"recipe": {key: data[key] for key in data if key not in SECTIONS}}
    case.update({key: data[key] for key in data if key in SECTIONS})  # type: ignore[misc]
    problems += _secret_problems(data, marks) + _flag_problems(data, marks) + _url_problems(data, marks)
    try:
        # JSON, because strict mode then takes lists for tuples but still no "8" for 8
        read = Case.model_validate_json(json.dumps(case), strict=True)
    except ValidationError as error:
        found = problems_of(error, case, marks, _valid_names, _shown)  # type: ignore[arg-type]
        problems += [_moved(problem) for problem in found]
    else:
        if not problems:
            return read
    raise InputError(*sorted(_once(problems), key=lambda problem: (problem.file != str(path), problem.line)))


def _once(problems: Sequence[Problem]) -> list[Problem]:
    """The first problem of every place: what follows from it says nothing new."""
    return list({(problem.file, problem.line, problem.field): problem for problem in reversed(problems)}.values())


# --- from files and settings to one mapping


def read_text(path: FilePath) -> str:
    """The text of a file. Raises InputError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = _no_file(str(path))
    except UnicodeDecodeError as error:
        problem = Problem(f"Is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.", str(path), 1, "(file)")
    except OSError as error:
        problem = Problem(f"Cannot be read: {error.strerror}.", "Give a readable file.", str(path))
    raise InputError(problem)


def _no_file(name: str) -> Problem:
    """No such file; said so that it helps if the name is an address."""
    if re.match(r"https?:/", name):
        remedy = (
            "Write a recipe with `engine: endpoint` and `url: http://host:port`; only bench takes an address itself."
        )
        return Problem("Is an address, and a recipe file is wanted here.", remedy, name)
    if re.fullmatch(r"[A-Za-z0-9.-]+:\d+(/.*)?", name):
        return Problem("There is no such file.", f"If it is the address of a server, write http://{name}.", name)
    return Problem("There is no such file.", "Check the path.", name)


def _chain(path: FilePath, text: str | None = None) -> list[Document]:
    """The file and all that it extends, base first. `text` stands for the content of the first file."""
    documents: list[Document] = []
    seen: list[FilePath] = []
    here, why = path, None
    while True:
        try:
            document = _document(here, text if not documents else None)
        except InputError as error:
            if why is None or any(problem.line for problem in error.problems):
                raise
            raise InputError(_at(why, "extends", f"Names {here}, which is not a readable file.")) from None
        documents.insert(0, document)
        seen.append(here.resolve())
        why = document.mark(("extends",))
        base = _base(document, here)
        if base is None:
            return documents
        if base.resolve() in seen or len(seen) >= _LONGEST_CHAIN:
            raise InputError(_at(why, "extends", f"Leads back to {base}.", "Remove one `extends` of the circle."))
        here = base


def _at(mark: Mark, field: str, message: str, remedy: str = "Give a path relative to this file.") -> Problem:
    return Problem(message, remedy, mark.file, mark.line, field)


def _document(path: FilePath, text: str | None) -> Document:
    document = yamltext.parse(read_text(path) if text is None else text, str(path))
    if not isinstance(document.data, dict):
        message = "Is not a mapping."
        raise InputError(Problem(message, "Start with `name: my-recipe`.", str(path), document.mark(()).line, "(file)"))
    return document


def _base(document: Document, path: FilePath) -> FilePath | None:
    assert isinstance(document.data, dict)
    if "extends" not in document.data:
        return None
    name = document.data["extends"]
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(_at(document.mark(("extends",)), "extends", "Needs the name of one recipe file."))
    return path.parent / name


def _settings(sets: Sequence[str]) -> list[Document]:
    """Each `a.b=c` as a document of its own; texts are left to the merge, which knows the keys that are there."""
    problems: list[Problem] = []
    documents: list[Document] = []
    for text in sets:
        found = _setting(text)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            documents.append(found)
    if problems:
        raise InputError(*problems)
    return documents


def _setting(text: str) -> Document | Problem:
    source = f"--set {text}"
    name, equals, value = _split_setting(text)
    try:
        path = split_dotted(name)
    except ValueError:
        return Problem("Is not of the form a.b=VALUE.", "Write --set flags.parallel=8.", source)
    if not equals:
        return Problem("Has no `=`.", "Write --set flags.parallel=8.", source, field=name)
    if path[0] not in TOP_FIELDS:
        return Problem("Sets nothing that a recipe has.", nearest(path[0], TOP_FIELDS), source, field=name)
    if single := next((path[:end] for end in range(1, len(path)) if is_single(_FIELDS, path[:end])), ()):
        place = join_dotted(single)
        return Problem(
            f"`{place}` is a single value, with nothing below it.", f"Write --set {place}=VALUE.", source, field=name
        )
    try:
        data = yamltext.parse_value(value)
    except InputError as error:
        why = error.problems[0].message
        message = f"The value {value.strip()!r} is not finished: {why}"
        return Problem(message, "Close its brackets and quotes.", source, field=name)
    if path[0] == "env" and data is not None and not isinstance(data, (dict, list)):
        data = data if isinstance(data, str) else value.strip()
    return Document(nested(path, data), {(): Mark(source), path: Mark(source, 0, value)})


def _split_setting(text: str) -> tuple[str, str, str]:
    """Split at the first `=` outside quotes."""
    found = re.match(r"""((?:"[^"]*"|'[^']*'|[^="'])*)(=?)(.*)""", text, re.DOTALL)
    assert found is not None
    return found.group(1).strip(), found.group(2), found.group(3)


def _merged(documents: Sequence[Document]) -> tuple[dict[str, Json], Marks, list[Problem]]:
    data: dict[str, Json] = {}
    marks: Marks = {}
    problems: list[Problem] = []
    for document in documents:
        preset = named_preset(document)
        if preset is not None:  # it takes the place of the whole workload so far
            data.pop("workload", None)
        for layer in (document,) if preset is None else preset_layers(preset, document):
            over, over_marks = _joined(layer, data)
            problems += _null_problems(over, data, over_marks)
            data = merge(data, over, keep_null=_is_json_place)
            marks.update(over_marks)
    data.pop("extends", None)
    return data, marks, problems


def _joined(document: Document, data: Mapping[str, Json]) -> tuple[dict[str, Json], Marks]:
    """The document; a setting's path is joined to the keys that are there (`flags.a.b` to the flag `a.b`)."""
    assert isinstance(document.data, dict)
    marks = dict(document.marks)
    source = document.mark(())
    if source.line:
        return document.data, marks
    path, mark = next((path, mark) for path, mark in marks.items() if path)
    joined = resolve(data, [str(segment) for segment in path])
    value: Json = document.data
    for segment in path:
        assert isinstance(value, dict)
        value = value[str(segment)]
    return nested(joined, value), {joined: mark, (): source}


def _is_json_place(path: Path) -> bool:
    """True inside a JSON value, where null is a value and not a removal."""
    return len(path) > 2 and (path[0] in _OPEN or path[:2] in _FREE)


def _null_problems(over: Json, base: Json, marks: Marks, path: Path = ()) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in over.items() if isinstance(over, dict) else ():
        here = (*path, key)
        below = base.get(key) if isinstance(base, dict) else None
        if value is None and not _is_json_place(here) and not (isinstance(base, dict) and key in base):
            remedy = "Write true for a bare flag." if path[:1] in (("flags",), ("container",)) else "Give it a value."
            mark = nearest_mark(marks, here)
            message = "Has no value, and there is nothing to remove."
            problems.append(Problem(message, f"{remedy} Or delete it.", mark.file, mark.line, join_dotted(here)))
        problems += _null_problems(value, below, marks, here)
    return problems


# --- what the types cannot say


def _secret_problems(data: Mapping[str, Json], marks: Marks) -> list[Problem]:
    places = [(path, nearest_mark(marks, path)) for path in leaks(data)]
    return [Problem(*LEAK, mark.file.partition("=")[0], mark.line, join_dotted(path)) for path, mark in places]


def _flag_problems(data: Mapping[str, Json], marks: Marks) -> list[Problem]:
    problems: list[Problem] = []
    for section in _OPEN:
        flags = data.get(section)
        for name, value in flags.items() if isinstance(flags, dict) else ():
            found = _flag_problem(name, value)
            if found:
                mark = nearest_mark(marks, (section, name))
                problems.append(Problem(*found, mark.file, mark.line, join_dotted((section, name))))
    return problems


def _flag_problem(name: str, value: Json) -> tuple[str, str] | None:
    if name.startswith("--"):
        return "Flag names stand without their two dashes.", f"Write `{name.lstrip('-')}`."
    if not name.strip("-") or re.search(r"[\s=]", name):
        return "Is no flag name.", "Write the name alone and its value after the colon: `max-num-seqs: 64`."
    if value is False:
        return (
            "false says nothing on a command line.",
            f"Write `no-{name}: true` if the engine has that flag, or delete the line.",
        )
    return None


def _url_problems(data: Mapping[str, Json], marks: Marks) -> list[Problem]:
    url, engine = data.get("url") or "", data.get("engine")
    if engine == "endpoint" and isinstance(url, str) and bare_url(url) != url.rstrip("/"):
        found = "The path of the API is added here.", f"Write `url: {bare_url(url)}`."
    elif engine == "endpoint" and not (isinstance(url, str) and re.match(r"https?://[^/\s]+", url)):
        found = "An endpoint needs its address.", "Write `url: http://host:port`."
    elif url and engine != "endpoint":
        found = "Only an endpoint has an address.", "Write `engine: endpoint`, or delete the line."
    else:
        return []
    mark = nearest_mark(marks, ("url",) if ("url",) in marks else ("engine",))
    return [Problem(*found, mark.file, mark.line, "url")]


def bare_url(url: str) -> str:
    """An address as other clients want it, without the path of the API and without a slash at its end."""
    return re.sub(r"/v1(/(chat/)?completions|/models)?$", "", url.rstrip("/"))


# --- from pydantic's paths to the file's


def _valid_names(path: Path) -> Sequence[str]:
    if path == ("recipe",):
        return (*TOP_FIELDS, "extends")
    return (*fields_below(Case, path), *(("preset",) if path == ("workload",) else ()))


def _shown(path: Path) -> Path:
    return path[1:] if path[:1] == ("recipe",) else path


def _moved(problem: Problem) -> Problem:
    """A field of a section at the left edge: say where it belongs."""
    home = next((name for name in SECTIONS if problem.field in fields_below(Case, (name,))), "")
    if not home or problem.message != "No such field.":
        return problem
    return Problem(problem.message, f"Move it below `{home}:`.", problem.file, problem.line, problem.field)


# --- writing


def dump_case(case: Case) -> str:
    """YAML that reads back as the same case. Sections stand whole, so that no default is left to a later version."""
    # What is absent is left out: null in a file takes away what its base has.
    whole: dict[str, Any] = case.model_dump(mode="json", exclude_none=True)
    recipe = case.recipe.model_dump(mode="json", exclude_defaults=True)
    return yamltext.dump({**recipe, **{name: whole[name] for name in SECTIONS}}, Layout(quoted=frozenset({"env"})))


def dump_recipe(recipe: Recipe) -> str:
    """YAML of the recipe alone: what one trial served."""
    data: dict[str, Any] = recipe.model_dump(mode="json", exclude_defaults=True)
    return yamltext.dump(data, Layout(quoted=frozenset({"env"})))


def with_sets(case: Case, sets: Sequence[str]) -> Case:
    """The case with `a.b=c` settings on top, as if it stood in a file. Raises InputError."""
    document = _document(FilePath("settings"), dump_case(case))
    return _case_of([document, *_settings(sets)], FilePath("settings"))


def write_text(path: FilePath, text: str) -> None:
    """Put text in place at once, so that no reader ever sees half a file. Raises MachineError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except FileNotFoundError:
        raise MachineError(
            f"Cannot write {path}: there is no folder {path.parent}.", "Make the folder first."
        ) from None
    except OSError as error:
        raise MachineError(f"Cannot write {path}: {error.strerror}.", "Choose a folder that can be written.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        FilePath(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        FilePath(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            FilePath(name).unlink()
        raise


def edit_file(path: FilePath, dotted: str, value: Json) -> Case:
    """Set one value in a recipe file (null removes), keeping comments. Writes only if the file stays valid."""
    try:
        where = split_dotted(dotted)
    except ValueError:
        problem = Problem("Is no path.", "Write flags.parallel.", str(path), field=dotted)
        raise InputError(problem) from None
    text = read_text(path)
    document = _document(path, text)
    assert isinstance(document.data, dict)
    edited = yamltext.edit(text, resolve(document.data, where), value)
    case = _case_of(_chain(path, edited), path)
    write_text(path, edited)
    return case


def case_schema() -> dict[str, Any]:
    """JSON Schema of a recipe file, for editors."""
    schema = Case.model_json_schema()
    recipe = schema["$defs"].pop("Recipe")
    for name in ("env", *_OPEN):
        values = recipe["properties"][name]["additionalProperties"]
        recipe["properties"][name]["additionalProperties"] = {"anyOf": [values, {"type": "null"}]}
    preset = {"enum": list(preset_names()), "description": "A workload by name; what stands beside it is laid over it"}
    schema["$defs"]["Workload"]["properties"]["preset"] = preset
    base = {"type": "string", "description": "A recipe file to start from, relative to this one"}
    sections = {name: schema["properties"][name] for name in SECTIONS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "servesmith recipe",
        "description": "What is served and how, what is asked of it, and what counts as better",
        "type": "object",
        "properties": {"extends": base, **recipe["properties"], **sections},
        "anyOf": [{"required": ["extends"]}, {"required": recipe["required"]}],
        "additionalProperties": False,
        "$defs": schema["$defs"],
    }
