"""`servesmith clean`: make room, by name only."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import AsJson
from servesmith.errors import InputError, Problem
from servesmith.store.journal import is_locked

DERIVED = ("report.html", "summary.json")


def clean(
    run: Annotated[list[Path], typer.Argument(help="Folders of runs", show_default=False)],
    everything: Annotated[
        bool, typer.Option("--all", help="Remove the whole run, raw records and journal too")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Remove what can be made again (report, summary) of the runs named; with --all the runs themselves.

    Example: servesmith clean --all runs/20261201-120000-local-smollm2
    """
    problems = [problem for folder in run if (problem := _unfit(folder)) is not None]
    if problems:
        raise InputError(*problems)
    removed = [path for folder in run for path in _removed(folder, everything=everything)]
    if as_json:
        show.json({"removed": [str(path) for path in removed]})
    else:
        for path in removed:
            show.line(f"removed {path}")
    return 0


def _removed(folder: Path, *, everything: bool) -> list[Path]:
    if everything:
        shutil.rmtree(folder)
        return [folder]
    paths = [folder / name for name in DERIVED if (folder / name).exists()]
    for path in paths:
        path.unlink()
    return paths


def _unfit(folder: Path) -> Problem | None:
    if not (folder / "journal.jsonl").is_file():
        return Problem(
            "is not the folder of a run, so nothing is removed.", "`servesmith runs` lists them.", str(folder)
        )
    if is_locked(folder):
        return Problem("is being written by another servesmith.", "Wait until it has ended.", str(folder))
    return None
