"""`servesmith demo`: the whole loop on the embedded engine, in under ten minutes, on a real model."""

from importlib import resources
from pathlib import Path

from servesmith.cli import show
from servesmith.cli.common import RUNS, AsJson, DryRun, RunsFolder, Seed, now, watching
from servesmith.cli.finish import finished
from servesmith.cli.tune import choose
from servesmith.engine.registry import adapter
from servesmith.recipe.files import read_case
from servesmith.tune.loop import tune as loop
from servesmith.tune.open import open_run
from servesmith.tune.place import place_of
from servesmith.tune.plan import Plan
from servesmith.tune.preview import preview
from servesmith.tune.settings import Settings

LEVERS = ("parallel-8-split", "threads-1", "ngram-simple")
SHORTENED = (
    "The demo is shortened to fit into ten minutes: 3 levers of the library, short windows, one "
    "screening round, one lever confirmed at most, looks at 4 and 6 blocks, no refining of numbers, 4 proof blocks, "
    "and the final recipe is gated as strongly as its lever, not at full strength."
)


def demo(seed: Seed = 1, runs: RunsFolder = RUNS, dry_run: DryRun = False, as_json: AsJson = False) -> int:
    """Tune SmolLM2-135M on this machine against llama-server's own defaults, with proof.

    Example: servesmith demo
    """
    with resources.as_file(resources.files("servesmith.cli") / "demo.yaml") as path:
        case = read_case(Path(path))
    settings = Settings(
        seed=seed,
        noise_blocks=4,
        rounds=1,
        screen_rounds=1,
        confirm_most=1,
        looks=(4, 6),
        proof_blocks=4,
        full_final_gate=False,
        shortened=SHORTENED,
        refine_trials=0,
        minimum_gain=case.goal.minimum_gain,
    )
    plan = Plan(verb="tune", case=case, settings=settings, levers=choose(case, [], list(LEVERS), []))
    place = place_of(case, adapter(case.recipe.engine))
    if dry_run:
        show.preview(preview(plan, place), as_json=as_json)
        return 0
    opened = open_run(plan, runs, watching(), now)
    with show.ending(opened.run):
        tuned = loop(opened.run, case, plan.levers, place)
    finished(opened.run, as_json=as_json)
    return 0 if tuned.levers else 1
