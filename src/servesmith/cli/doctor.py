"""`servesmith doctor`: is this machine fit to measure on?"""

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, RunsFolder
from servesmith.doctor import examine


def doctor(runs: RunsFolder = RUNS, as_json: AsJson = False) -> int:
    """Look at load, memory, disk, clocks, GPUs and engines. Exit code 1 if something is bad.

    Example: servesmith doctor
    """
    found = examine(runs)
    if as_json:
        show.json({"findings": found})
    else:
        show.doctor(found)
    return 1 if any(finding.state == "bad" for finding in found) else 0
