"""`servesmith init`: a recipe from the command that runs today."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import typer

from servesmith.cli import show
from servesmith.cli.common import AsJson
from servesmith.errors import InputError, Problem
from servesmith.recipe.command import command_line
from servesmith.recipe.compose import from_compose
from servesmith.recipe.docker_inspect import from_docker_inspect
from servesmith.recipe.files import dump_case, read_text, write_text
from servesmith.recipe.importers import Imported, recipe_from_command, recipe_from_shell
from servesmith.recipe.kubernetes import from_kubernetes
from servesmith.recipe.model import Case
from servesmith.recipe.vllm_config import from_vllm_config

SETTINGS = {"context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False}}


SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1", "2>"})


class Reader(Protocol):
    """Makes a recipe of a file's text."""

    def __call__(self, text: str, file: str, *, name: str = "") -> Imported:
        """`file` is only for messages."""
        ...


def init(
    command: Annotated[list[str] | None, typer.Argument(help="The command, after --", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the recipe here, not to stdout")] = None,
    inspect: Annotated[Path | None, typer.Option("--docker-inspect", help="JSON of `docker inspect`")] = None,
    compose: Annotated[Path | None, typer.Option("--compose", help="A compose file")] = None,
    service: Annotated[str, typer.Option("--service", help="Which service of the compose file")] = "",
    kubernetes: Annotated[Path | None, typer.Option("--kubernetes", help="A Kubernetes manifest")] = None,
    vllm_config: Annotated[Path | None, typer.Option("--vllm-config", help="A vLLM --config file")] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the recipe")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file")] = False,
    embedded: Annotated[bool, typer.Option("--embedded", help="llama.cpp: the engine of servesmith")] = False,
    as_json: AsJson = False,
) -> int:
    """Make a recipe from a running command line, container, compose file or manifest.

    Example: servesmith init -o recipe.yaml -- vllm serve Qwen/Qwen3-8B --max-num-seqs 64
    """
    readers: list[tuple[Path | None, Reader]] = [
        (inspect, from_docker_inspect),
        (compose, partial(from_compose, service=service)),
        (kubernetes, from_kubernetes),
        (vllm_config, from_vllm_config),
    ]
    files = [(path, reader) for path, reader in readers if path is not None]
    if len(files) + bool(command) != 1:
        raise InputError(
            Problem(
                "give exactly one source.",
                "Either `-- <command>` or one of --docker-inspect, --compose, --kubernetes, --vllm-config.",
            )
        )
    if command:
        imported = _from_words(command, name)
    else:
        path, reader = files[0]
        imported = reader(read_text(path), str(path), name=name)
    _write(_embedded(imported) if embedded else imported, out, force=force, as_json=as_json)
    return 0


def _embedded(imported: Imported) -> Imported:
    """The same recipe for the engine that comes with servesmith, which needs no container. Raises InputError for
    another engine."""
    if imported.recipe.engine != "llamacpp":
        raise InputError(Problem("only llama.cpp is embedded.", "Leave --embedded out.", field="--embedded"))
    return replace(imported, recipe=imported.recipe.model_copy(update={"executable": (), "image": "", "container": {}}))


def _from_words(command: list[str], name: str) -> Imported:
    """One word with spaces in it is a whole command line that was quoted."""
    if operators := [word for word in command if word in SHELL]:
        raise InputError(
            Problem(
                f"{operators[0]} is the shell's, not the engine's.",
                "Give the one command that starts the server, without pipes and redirections.",
                "command line",
            )
        )
    if len(command) == 1 and " " in command[0]:
        return recipe_from_shell(command[0], name)
    return recipe_from_command(command, name)


def _write(imported: Imported, out: Path | None, *, force: bool, as_json: bool) -> None:
    text, command = dump_case(Case(recipe=imported.recipe)), command_line(imported.recipe)
    if out is not None and out.is_dir():
        raise InputError(Problem("is a folder.", f"Name a file in it: {out / 'recipe.yaml'}.", file=str(out)))
    if out is not None and out.exists() and not force:
        raise InputError(Problem("exists already.", "Choose another name or say --force.", file=str(out)))
    if out is not None:
        write_text(out, text)
        show.note(f"wrote {out}")
    if as_json:
        show.json({"recipe": imported.recipe, "notes": imported.notes, "command": command})
    elif out is None:
        show.text(text)
    for note in imported.notes:
        show.note(f"note: {note}")
    show.note(f"the same command: {command}")
