"""`servesmith export`: a trial's numbers in a format that other tools read."""

from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.interop.own import Trial, read_trial, trial_folder
from servesmith.interop.to_llmd import to_llmd
from servesmith.interop.to_vllm import to_vllm
from servesmith.recipe import yamltext
from servesmith.recipe.files import write_text
from servesmith.store.events import TrialResult
from servesmith.store.journal import JOURNAL, read_events
from servesmith.store.replay import replay


class Format(StrEnum):
    """What can be written."""

    LLMD = "llm-d"
    VLLM = "vllm"


def export(
    what: Annotated[Path, typer.Argument(help="Folder of a run or of one of its trials", show_default=False)],
    format_: Annotated[Format, typer.Option("--format", help="llm-d: benchmark report v0.2; vllm: bench serve JSON")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; .yaml or .yml: YAML", show_default=False)
    ] = None,
) -> int:
    """Write one trial as an llm-d benchmark report v0.2 or as JSON of vLLM bench serve, with our definitions in it.

    Example: servesmith export runs/20261201-120000-local-smollm2 --format llm-d -o report.yaml
    """
    trial = _trial(trial_folder(what))
    data = to_llmd(trial) if format_ is Format.LLMD else to_vllm(trial)
    if out is None:
        show.json(data)
        return 0
    write_text(out, yamltext.dump(data) if out.suffix in (".yaml", ".yml") else show.as_json(data))
    show.note(f"wrote {out}")
    return 0


def _trial(folder: Path) -> Trial:
    result = _result(folder.resolve())
    if result is None:
        return read_trial(folder)
    ended = datetime.fromisoformat(result.began) + timedelta(seconds=result.seconds)
    return read_trial(folder, began=result.began, ended=ended.isoformat(timespec="seconds"))


def _result(folder: Path) -> TrialResult | None:
    """What the journal of its run says of a trial; None where there is no such run."""
    run = folder.parent.parent
    if folder.parent.name != "trials" or not (run / JOURNAL).is_file():
        return None
    results = replay(read_events(run)).results.values()
    return next((result for result in results if (run / result.folder).name == folder.name), None)
