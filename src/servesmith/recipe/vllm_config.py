"""A recipe from the file of `vllm serve --config FILE`."""

import json

from servesmith.errors import InputError, Problem
from servesmith.recipe import yamltext
from servesmith.recipe.argv import is_flag
from servesmith.recipe.importers import Imported, Parts, assemble
from servesmith.recipe.paths import Path
from servesmith.recipe.yamltext import Document
from servesmith.units import Json


def from_vllm_config(text: str, file: str = "config.yaml", name: str = "") -> Imported:
    """The recipe of a `vllm serve --config` file: its keys are flags. Raises InputError."""
    document = yamltext.parse(text, file)
    if not isinstance(document.data, dict) or not document.data:
        raise InputError(Problem("Is not a mapping of flags.", "Write `model: NAME`.", file, 1, "(file)"))
    data = dict(document.data)
    model = data.pop("model", data.pop("model_tag", None))
    unfit = [key for key in data if not is_flag(f"--{key}") or "=" in key]
    problems = [_problem(document, key, "Is no flag name.", "Write a flag of vllm serve.") for key in unfit]
    if not isinstance(model, str):
        problems.insert(0, _problem(document, "model", "Names no model.", "Add `model: NAME`."))
    if problems:
        raise InputError(*problems)
    parts = Parts(["vllm", "serve", str(model)])
    for key, value in data.items():
        if value is False or value is None:
            written = document.mark((key,)).text or "null"
            parts.notes.append(f"`{key}: {written}` says nothing to vLLM, so it is left out.")
        else:
            parts.words += _config_words(key, value, document)
    return assemble(parts, name)


def _problem(document: Document, key: str, message: str, remedy: str) -> Problem:
    mark = document.mark((key,))
    return Problem(message, remedy, mark.file, mark.line, key)


def _config_words(key: str, value: Json, document: Document) -> list[str]:
    """The words that vLLM itself makes of a line of the file."""
    if value is True:
        return [f"--{key}"]
    if isinstance(value, list):
        return [f"--{key}", *(_word(item, document, (key, index)) for index, item in enumerate(value))]
    return [f"--{key}={_word(value, document, (key,))}"]


def _word(value: Json, document: Document, path: Path) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else document.mark(path).text
