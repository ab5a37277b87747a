"""A against A, many times, on a real engine: how often does `compare` claim a difference that cannot be there?

    .venv/bin/python benchmarks/aa_batch.py --compares 20 --out docs/evidence/aa-batch.json

Every comparison is a run of its own with a seed of its own, of the same recipe twice; none is left out and none is
run again. Blocks are short (the options say how short), which makes them noisier, not more or less honest.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

from servesmith.cli.common import now
from servesmith.recipe.files import read_case
from servesmith.report.summary import summarise
from servesmith.store.journal import read_events
from servesmith.store.watch import Silent
from servesmith.tune.compare import compare
from servesmith.tune.open import Plan, open_run
from servesmith.tune.settings import Settings

RECIPE = Path(__file__).parents[1] / "recipes" / "local-smollm2.yaml"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--compares", type=int, default=20)
    parser.add_argument("--looks", default="4,6")
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--window", type=float, default=2.5)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--set", dest="sets", action="append", default=[], help="as for servesmith: flags.threads=1")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/aa-batch"))
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


def one(given: argparse.Namespace, seed: int) -> dict[str, object]:
    sets = [
        f"load.warmup_s={given.warmup}", f"load.window_s={given.window}", f"load.streams={given.streams}",
        "workload.output_tokens=32", *given.sets,
    ]  # fmt: skip
    case = read_case(given.recipe, sets)
    looks = tuple(int(look) for look in given.looks.split(","))
    settings = Settings(seed=seed, looks=looks, minimum_gain=case.goal.minimum_gain)
    opened = open_run(Plan(verb="compare", case=case, settings=settings, rival=case), given.runs, Silent(), now)
    with opened.run.journal:
        verdict, _ = compare(opened.run, case, case.recipe, require_quality=False)
    summary = summarise(read_events(opened.run.folder))
    return {
        "seed": seed,
        "run": opened.run.folder.name,
        "says": verdict.says,
        "blocks": verdict.blocks,
        "ratio": verdict.effect.ratio if verdict.effect else None,
        "low": verdict.effect.low if verdict.effect else None,
        "high": verdict.effect.high if verdict.effect else None,
        "log_ratios": list(verdict.log_ratios),
        "because": verdict.because,
        "seconds": round(summary.time.seconds, 1),
    }


def main() -> None:
    given = options()
    began, rows = time.time(), []
    for seed in range(given.first_seed, given.first_seed + given.compares):
        row = one(given, seed)
        rows.append(row)
        print(f"seed {seed:3d}  {row['says']:10s} blocks {row['blocks']}  {row['because']}", flush=True)
    claims = sum(row["says"] in ("better", "worse") for row in rows)
    print(
        f"{claims} claims in {len(rows)} comparisons of a recipe with itself, {(time.time() - began) / 60:.1f} minutes"
    )
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        shown = {key: str(value) for key, value in vars(given).items() if key not in ("out", "runs")}
        shown["recipe"] = given.recipe.name
        head = {"made": now(), "python": platform.python_version(), "options": shown, "claims": claims}
        given.out.write_text(json.dumps({**head, "compares": rows}, indent=1) + "\n")
    sys.exit(claims > 3)


if __name__ == "__main__":
    main()
