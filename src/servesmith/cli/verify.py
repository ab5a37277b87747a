"""`servesmith verify`: recompute every number of a run from its raw records."""

from servesmith.cli import show
from servesmith.cli.common import AsJson, RunFolder
from servesmith.report.audit import audit_run


def verify(run: RunFolder, as_json: AsJson = False) -> int:
    """Recompute every number of a run from raw records, and compare every file with its recorded hash.

    Example: servesmith verify runs/20261201-120000-local-smollm2
    """
    checks = audit_run(run)
    if as_json:
        show.json({"run": str(run), "checks": checks})
    else:
        show.checks(checks)
    return 0
