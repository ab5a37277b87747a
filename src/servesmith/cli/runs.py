"""`servesmith runs`: which runs there are, and how each ended."""

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, RunsFolder
from servesmith.report.index import index


def runs(folder: RunsFolder = RUNS, as_json: AsJson = False) -> int:
    """List the runs of a folder with their state.

    Example: servesmith runs
    """
    rows = index(folder)
    if as_json:
        show.json(rows)
    else:
        show.runs(rows, folder)
    return 0
