"""What the importers of foreign files share: a loose reading of their format, and the way to a recipe.

Each format becomes the parts of a `docker run`, so there is one place that makes recipes. What has no counterpart
there is said in a note.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from servesmith.errors import InputError, Problem
from servesmith.recipe.argv import Occurrence, grouped
from servesmith.recipe.importers import Imported, Parts, assemble, in_container
from servesmith.recipe.paths import Path
from servesmith.recipe.problems import fields_below, problems_of
from servesmith.recipe.yamltext import Document
from servesmith.units import Json

M = TypeVar("M", bound=BaseModel)


class Loose(BaseModel):
    """Part of a foreign format: what we do not read is not ours to judge."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)


def fitted(model: type[M], data: Json, document: Document, path: Path = ()) -> M:
    """The part of a document at `path` as a model. Raises InputError with the document's lines."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(
            *problems_of(
                error,
                data,
                {**document.marks, (): document.mark(path)},
                lambda where: fields_below(model, where),
                lambda where: (*path, *where),
            )
        ) from None


def _no_engine(file: str, what: str, names: Sequence[str] = ()) -> InputError:
    found = f" Found: {', '.join(names)}." if names else ""
    remedy = "Name one by --service." if what == "service" else "Leave only one of them in the file."
    return InputError(Problem(f"Has no single {what} that starts a known engine.{found}", remedy, file, 1, "(file)"))


def single(candidates: Mapping[str, Callable[[], Imported]], file: str, what: str) -> Imported:
    """The only candidate that is a recipe. With one candidate, its own error; with several good ones, their names."""
    good: dict[str, Imported] = {}
    errors: list[InputError] = []
    for name, build in candidates.items():
        try:
            good[name] = build()
        except InputError as error:
            errors.append(error)
    if len(good) == 1:
        return next(iter(good.values()))
    if len(candidates) == 1 and errors:
        raise errors[0]
    raise _no_engine(file, what, tuple(good or candidates))


def assembled(parts: Parts, entrypoint: Sequence[str] | None, options: Sequence[Occurrence], name: str) -> Imported:
    """The recipe of a container that a file describes. Raises InputError."""
    parts.container = grouped(options)
    if entrypoint:
        parts.container["entrypoint"] = entrypoint[0]
        parts.words = [*entrypoint[1:], *parts.words]
    return assemble(in_container(parts), name)
