"""Who runs a trial: this host, one at a time; or the virtual engine, for tests of the loop."""

from pathlib import Path

from servesmith.recipe.model import Case
from servesmith.store.events import TrialResult
from servesmith.store.watch import Watcher
from servesmith.trial import Order, Site, run_trial
from servesmith.tune.run import Executor
from servesmith.tune.virtual import VirtualExecutor, is_virtual


class LocalExecutor:
    """Trials on this host, one after the other."""

    def run(self, order: Order, folder: Path, watch: Watcher) -> TrialResult:
        """Run it to its end; a failure is a result."""
        return run_trial(order, Site(folder, watch))


def executor_for(case: Case) -> Executor:
    """The executor that fits: decided once, where a run is opened."""
    return VirtualExecutor() if is_virtual(case.recipe) else LocalExecutor()
