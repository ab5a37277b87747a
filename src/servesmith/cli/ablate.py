"""`servesmith ablate`: what each kept lever of a run is worth, measured anew."""

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, RunFolder, RunsFolder, Seed, now, watching
from servesmith.cli.finish import finished
from servesmith.errors import InputError, Problem
from servesmith.store.journal import read_events
from servesmith.store.replay import opened_of
from servesmith.tune.ablate import ablate_stack, kept_levers
from servesmith.tune.open import open_run, plan_of
from servesmith.tune.plan import Plan


def ablate(run: RunFolder, seed: Seed = 2, runs: RunsFolder = RUNS, as_json: AsJson = False) -> int:
    """Leave each kept lever out of a run's final recipe in turn and measure what that costs.

    Example: servesmith ablate runs/20261201-120000-local-smollm2
    """
    events = read_events(run)
    before = plan_of(run, opened_of(events))
    levers = kept_levers(events, before.levers)
    if not levers:
        raise InputError(Problem("keeps no lever, so there is nothing to ablate.", "Tune first.", file=str(run)))
    settings = before.settings.reseeded(seed)
    plan = Plan(verb="ablate", case=before.case, settings=settings, levers=levers, file=str(run / "recipe.yaml"))
    opened = open_run(plan, runs, watching(), now)
    with show.ending(opened.run):
        ablate_stack(opened.run, before.case, levers)
    finished(opened.run, as_json=as_json)
    return 0
