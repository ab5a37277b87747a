"""`servesmith import`: results of other tools under our metrics, with how their definitions differ."""

from pathlib import Path
from typing import Annotated

import typer

from servesmith.cli import show
from servesmith.cli.common import AsJson
from servesmith.interop.read import read_results

NAME = "import"


def imports(
    files: Annotated[list[Path], typer.Argument(help="Result files of other tools", show_default=False)],
    as_json: AsJson = False,
) -> int:
    """Read results of vLLM bench serve, SGLang, AIPerf, GuideLLM and InferenceX, and tell how they differ from ours.

    Example: servesmith import vllm-result.json sglang.jsonl
    """
    found = read_results(files)
    if as_json:
        show.json({"results": found})
    else:
        show.foreign(found)
    return 0
