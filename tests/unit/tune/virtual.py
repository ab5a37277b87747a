"""A case on the virtual engine whose true effects are known, and levers of every kind of fate."""

from pathlib import Path

from servesmith.engine.registry import adapter
from servesmith.recipe.model import Case, Goal, Lever, Load, Quality, Recipe, Workload
from servesmith.store.watch import Silent
from servesmith.tune.loop import Tuned
from servesmith.tune.loop import tune as loop
from servesmith.tune.open import Opened, open_run, resume_run
from servesmith.tune.place import place_of
from servesmith.tune.plan import Plan
from servesmith.tune.settings import Settings


def clock() -> str:
    return "2026-01-01T00:00:00+00:00"


def case(**flags: object) -> Case:
    given = {"slots": 4, "gap-ms": 10.0, "ttft-ms": 50.0, "slope": 0.05, "noise-restart": 0.01, "seed": 7, **flags}
    return Case(
        recipe=Recipe.model_validate({"name": "virtual", "engine": "sim", "executable": ["virtual"], "flags": given}),
        workload=Workload(prompt_tokens=32, output_tokens=20),
        load=Load(streams=8, warmup_s=2, window_s=6),
        goal=Goal(),
        quality=Quality(tasks=("marked",), items=120),
    )


def lever(name: str, risk: str = "lossless", **flags: object) -> Lever:
    changes = {f"flags.{key.replace('_', '-')}": value for key, value in flags.items()}
    return Lever.model_validate({"name": name, "why": "test", "risk": risk, "set": changes})


SLOTS = lever("slots-8", slots=8)
SLOWER = lever("slower", gap_ms=13.0)
INERT = lever("inert", ctx=4096)
CRASH = lever("crash", crash_at_start=True)
WRONG = lever("wrong-answers", ttft_ms=1.0, answers_wrong=0.3)
FASTER = lever("faster-first-token", ttft_ms=10.0)


def settings(**changes: object) -> Settings:
    base = {"seed": 3, "noise_blocks": 4, "screen_rounds": 1, "rounds": 2, "refine_trials": 0, "proof_blocks": 4}
    return Settings(**{**base, **changes})


def start(folder: Path, levers: tuple[Lever, ...], of: Case | None = None, **changes: object) -> Opened:
    plan = Plan(verb="tune", case=of or case(), settings=settings(**changes), levers=levers)
    return open_run(plan, folder, Silent(), clock)


def resume(folder: Path) -> Opened:
    return resume_run(folder, Silent(), clock)


def finish(opened: Opened) -> Tuned:
    plan = opened.plan
    place = place_of(plan.case, adapter("sim"))
    with opened.run.journal:
        return loop(opened.run, plan.case, plan.levers, place)
