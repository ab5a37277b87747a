"""What every run ends with: its page, its table, and where they are."""

from servesmith.cli import show
from servesmith.report.nouns import Summary
from servesmith.report.page import write_report
from servesmith.tune.run import Run


def finished(run: Run, *, as_json: bool) -> Summary:
    """Write the report and show the table; with `as_json` the summary is the document on stdout."""
    run.watch.close()
    summary = write_report(run.folder)
    if as_json:
        show.json(summary)
    else:
        show.summary(summary)
        show.line(f"report:  {run.folder / 'report.html'}")
        show.line(f"verify:  servesmith verify {run.folder}")
    return summary
