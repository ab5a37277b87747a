"""`servesmith init`: a recipe from the command that runs today."""

from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.errors import InputError, Problem
from servesmith.recipe.command import shell_line
from servesmith.recipe.files import dump_case
from servesmith.recipe.importers import (
    Imported, command_of, recipe_from_command, recipe_from_compose, recipe_from_inspect, recipe_from_kubernetes,
    recipe_from_vllm_config,
)  # fmt: skip
from servesmith.recipe.model import Case

SETTINGS = {"context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False}}


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
) -> int:
    """Make a recipe from a running command line, container, compose file or manifest.

    Example: servesmith init -o recipe.yaml -- vllm serve Qwen/Qwen3-8B --max-num-seqs 64
    """
    given = [bool(command), inspect is not None, compose is not None, kubernetes is not None, vllm_config is not None]
    if sum(given) != 1:
        raise InputError(
            Problem(
                "give exactly one source.",
                "Either `-- <command>` or one of --docker-inspect, --compose, --kubernetes, --vllm-config.",
            )
        )
    if command:
        imported = recipe_from_command(command)
    elif inspect is not None:
        imported = recipe_from_inspect(inspect)
    elif compose is not None:
        imported = recipe_from_compose(compose, service)
    elif kubernetes is not None:
        imported = recipe_from_kubernetes(kubernetes)
    else:
        assert vllm_config is not None
        imported = recipe_from_vllm_config(vllm_config)
    _write(imported, out, name, force=force)
    return 0


def _write(imported: Imported, out: Path | None, name: str, *, force: bool) -> None:
    recipe = imported.recipe.model_copy(update={"name": name}) if name else imported.recipe
    text = dump_case(Case(recipe=recipe))
    if out is None:
        show.text(text)
    elif out.exists() and not force:
        raise InputError(Problem("exists already.", "Choose another name or say --force.", file=str(out)))
    else:
        out.write_text(text)
        show.note(f"wrote {out}")
    for note in imported.notes:
        show.note(f"note: {note}")
    show.note(f"the same command: {shell_line(command_of(recipe), {})}")
