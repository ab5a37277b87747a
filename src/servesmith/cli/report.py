"""`servesmith report`: the page of a run, made anew from its journal and records."""

from servesmith.cli import show
from servesmith.cli.common import AsJson, RunFolder
from servesmith.report.page import write_report


def report(run: RunFolder, as_json: AsJson = False) -> int:
    """Write report.html and summary.json of a run anew.

    Example: servesmith report runs/20261201-120000-local-smollm2
    """
    summary = write_report(run)
    if as_json:
        show.json(summary)
    else:
        show.summary(summary)
        show.line(f"report: {run / 'report.html'}")
    return 0
