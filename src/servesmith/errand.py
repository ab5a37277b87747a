"""What a measuring trial does with a running server: prompts first, then the load, then records and numbers."""

import math

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.engine.base import Failure
from servesmith.engine.memory import PeakMemory
from servesmith.load.arrivals import schedule
from servesmith.load.client import ask
from servesmith.load.closed import run_closed
from servesmith.load.conduct import Progress, Settings
from servesmith.load.openloop import run_open
from servesmith.load.outcome import LoadOutcome
from servesmith.load.probe import Identity, ServerTokenizer, identify
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import Metric, RequestRecord
from servesmith.recipe.model import Load, Workload
from servesmith.units import NANOS_PER_SECOND, Nanos, Seconds
from servesmith.workload.base import Prompt
from servesmith.workload.synthetic import build

MOST_PROMPTS = 100_000
SPARE = 4
"""Prompts are drawn for a server so many times as fast as it was alone: it may warm up, or batch better than that."""
LEAST_WINDOW = 0.5
"""Share of the window that must be left where prompts ran out; less is not the load that was asked for."""
MOST_FAILED = 0.05
"""Share of failed requests from which on a trial is failed: what is left over would flatter the server."""


class LoadErrand(msgspec.Struct, frozen=True):
    """Put this load of this workload on the server and measure."""

    workload: Workload
    load: Load

    def run(self, desk: Desk) -> Outcome:
        """Build prompts until they are surely enough, drive the load, write the records."""
        who = identify(desk.url, key=desk.key)
        tokenizer = ServerTokenizer(desk.url, model=who.model, key=desk.key)
        try:
            singles = self._singles(desk, who, tokenizer)
            if bad := [single for single in singles if not single.ok]:
                return refused(bad, ours=desk.pid > 0)
            alone = min(single.end_ns - single.sent_ns for single in singles) / NANOS_PER_SECOND
            due_ns = self._due(desk.seed)
            prompts = self._prompts(who, tokenizer, desk.seed, len(due_ns) if due_ns else self._enough(alone))
            settings = Settings(
                key=desk.key,
                cycle_s=alone,
                chunks_per_s=self.load.streams * self.workload.output_tokens / max(alone, 1e-3),
                count_text=tokenizer.count_alone if who.kind == "openai" else None,
                on_progress=lambda progress: self._tell(desk, progress),
            )
            with PeakMemory(desk.pid) as memory:
                outcome = (
                    run_open(desk.url, prompts, due_ns, self.load, settings=settings)
                    if due_ns
                    else run_closed(desk.url, prompts, self.load, settings=settings)
                )
        finally:
            tokenizer.close()
        return _collected(desk, self.load, outcome, memory.peak_mib)

    def _singles(self, desk: Desk, who: Identity, tokenizer: ServerTokenizer) -> list[RequestRecord]:
        """Two requests on the idle server, one after the other: the first warms it and may be slow for that, the second
        tells what a request takes, so that prompts can be counted. They are of another seed than what is measured."""
        prompts = self._prompts(who, tokenizer, desk.seed + 1, 2)
        return ask(desk.url, [prompt.body for prompt in prompts], 1, key=desk.key, path=prompts[0].path)

    def _due(self, seed: int) -> tuple[Nanos, ...]:
        """Open loop: when requests are due; empty for a closed loop."""
        if self.load.arrivals is None:
            return ()
        return schedule(self.load.arrivals, seed, self.load.warmup_s + self.load.window_s).due_ns

    def _enough(self, alone: Seconds) -> int:
        rounds = math.ceil((self.load.warmup_s + self.load.window_s) / max(alone, 1e-3)) + 1
        return min(MOST_PROMPTS, SPARE * self.load.streams * rounds)

    def _prompts(self, who: Identity, tokenizer: ServerTokenizer, seed: int, count: int) -> tuple[Prompt, ...]:
        return build(self.workload, tokenizer, seed, count, model=who.model, server=who.kind)

    def _tell(self, desk: Desk, progress: Progress) -> None:
        total = self.load.warmup_s + self.load.window_s
        desk.watch.progress(desk.trial, progress.elapsed_s, total, progress.chunks)


def refused(failed: list[RequestRecord], *, ours: bool = True) -> Outcome:
    """A server that answers requests with errors cannot be measured. One of somebody else has no log to look at, so
    what its last failures mean is said here."""
    first, last = failed[0], failed[-1]
    said = f"{first.error}: {first.detail}"
    if not ours and last.error in ("connect", "cut"):
        said = f"the server stopped answering (first {said}; last {last.error}: {last.detail})"
    return Outcome("failed", Failure("requests-failed", said))


def _collected(desk: Desk, load: Load, outcome: LoadOutcome, peak_mib: float) -> Outcome:
    before, after = outcome.counters or (None, None)
    measured = Measured(
        records=outcome.records,
        window=outcome.window,
        doubts=outcome.doubts,
        counters=Counters(before=before, after=after, memory_peak_mib=peak_mib),
    )
    write_measured(desk.folder, measured)
    return judged(outcome, numbers(measured), load, ours=desk.pid > 0)


def judged(outcome: LoadOutcome, metrics: dict[str, Metric], load: Load, *, ours: bool = True) -> Outcome:
    """Failed or ok. A client that was too slow reports nothing: its latencies would be its own.

    `ours`: the server is one that we started, and has a log.
    """
    if outcome.hang:
        return Outcome("failed", Failure("hang", "no token from any stream within the first-token limit"), metrics)
    if outcome.client_too_slow:
        said = f"{outcome.client_too_slow}, so its latencies would be its own"
        return Outcome("failed", Failure("client-too-slow", said))
    failed = [record for record in outcome.records if not record.ok and record.error != "cancelled"]
    if len(failed) > MOST_FAILED * len(outcome.records):
        return refused(failed, ours=ours)
    if load.arrivals is None and (left := outcome.window.seconds) < LEAST_WINDOW * load.window_s:
        return Outcome("failed", Failure("too-few-prompts", _ran_out(left, load)))
    rate = metrics.get("output_tokens_per_s")
    if rate is None or rate.value == 0:
        return Outcome("failed", Failure("hang", "not one token arrived while the window was open"), metrics)
    return Outcome("ok", metrics=metrics)


def _ran_out(left: Seconds, load: Load) -> str:
    return (
        f"the prompts ran out with {left:.2f} s of the window's {load.window_s:g} s measured; the server answered "
        f"over {SPARE} times as fast as the requests sent beforehand foretold: measure again, or make requests "
        "longer (workload.output_tokens) or the window shorter (load.window_s)"
    )
