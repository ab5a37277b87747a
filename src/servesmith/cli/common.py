"""What several verbs share: options, durations, reading a recipe, opening a watcher."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.live import watcher
from servesmith.errors import InputError, Problem
from servesmith.recipe.files import SECTIONS, read_case, with_sets
from servesmith.recipe.model import Case, Recipe
from servesmith.store.watch import Watcher

RecipeFile = Annotated[Path, typer.Argument(help="Recipe file (YAML)", show_default=False)]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change one value: flags.parallel=8", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; progress stays on stderr")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the exact commands and the plan, and do nothing")]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Folder that holds the runs")]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run: runs/<id>", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", help="All randomness follows from it")]

Resume = Annotated[Path | None, typer.Option("--resume", help="Go on with this run", show_default=False)]
MaybeRecipe = Annotated[Path | None, typer.Argument(help="Recipe file (YAML)", show_default=False)]
MaybeTarget = Annotated[
    str | None, typer.Argument(help="Recipe file, or the URL of a running server", show_default=False)
]

RUNS = Path("runs")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def now() -> str:
    """Wall clock with offset, for people."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def seconds(text: str, option: str) -> float:
    """`90`, `90s`, `8m`, `1h30m` in seconds. Raises InputError."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        raise InputError(Problem(f"{text!r} is no duration.", "Write it like 90s, 8m or 1h30m.", field=option))
    return sum(float(value) * _UNITS[unit] for value, _, unit in re.findall(r"(\d+(\.\d+)?)([smh])", text))


def budget_seconds(text: str) -> float:
    """`--budget` in seconds; 0, no limit, only where it is empty. Raises InputError."""
    if not text:
        return 0.0
    value = seconds(text, "--budget")
    if not 0 < value < float("inf"):
        remedy = "Write it like 8m or 2h; leave it out for no limit."
        raise InputError(Problem(f"{text!r} leaves no time for a trial.", remedy, field="--budget"))
    return value


def rival_case(file: Path, sets: Sequence[str], b_sets: Sequence[str]) -> Case:
    """B of a comparison. Raises InputError for `--set-b` of what both share: it would be dropped."""
    shared = [text for text in b_sets if re.split(r"[.=]", text.strip(), maxsplit=1)[0] in SECTIONS]
    if shared:
        message = "load, workload, goal and quality are A's for both, so that the two can be compared."
        remedy = "Use --set, or another recipe for A."
        raise InputError(*(Problem(message, remedy, field=f"--set-b {text}") for text in shared))
    return read_case(file, [*sets, *b_sets])


def one_of(recipe: object, resume: object, verb: str) -> None:
    """A verb begins a run or goes on with one. Raises InputError if it was asked for both or for neither."""
    if (recipe is None) == (resume is None):
        message, remedy = "give a recipe file or --resume RUN, one of the two.", f"See `servesmith {verb} --help`."
        raise InputError(Problem(message, remedy))


def read_target(what: str, sets: Sequence[str]) -> Case:
    """The case of a recipe file, or of a server that someone else runs at a URL."""
    if what.startswith(("http://", "https://")):
        return with_sets(Case(recipe=Recipe(name="endpoint", engine="endpoint", url=what)), sets)
    return read_case(Path(what), sets)


def with_limits(case: Case, limits: Sequence[str]) -> Case:
    """The case with `--limit metric=value` put into its goal. Raises InputError on what is no such pair."""
    found: dict[str, float] = {}
    problems: list[Problem] = []
    for text in limits:
        key, _, value = text.partition("=")
        try:
            found[key.strip()] = float(value)
        except ValueError:
            problems.append(Problem(f"{text!r} is no limit.", "Write it like ttft_p95_ms=2000.", field="--limit"))
    if problems:
        raise InputError(*problems)
    return case.model_copy(update={"goal": case.goal.model_copy(update={"limits": {**case.goal.limits, **found}})})


def watching() -> Watcher:
    """The live view on stderr; plain lines where stderr is no terminal."""
    return watcher(show.stderr())
