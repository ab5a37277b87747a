"""What a measuring trial does with a running server: prompts first, then the load, then records and numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.engine.base import Failure
from servesmith.engine.memory import PeakMemory
from servesmith.load.arrivals import Schedule, schedule
from servesmith.load.client import ask
from servesmith.load.closed import run_closed
from servesmith.load.conduct import Progress, Settings
from servesmith.load.openloop import run_open
from servesmith.load.outcome import LoadOutcome
from servesmith.load.probe import Identity, ServerTokenizer, identify
from servesmith.load.wire import Limits
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import Metric, RequestRecord
from servesmith.measure.terms import Terms
from servesmith.recipe.model import Load, Workload
from servesmith.units import NANOS_PER_SECOND, Seconds
from servesmith.workload.base import Prompt, PromptSet
from servesmith.workload.lengths import mean_output_tokens
from servesmith.workload.synthetic import build_rows, build_set

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
    terms: Terms = Terms()
    """What numbers are wanted beside those that records alone give."""

    def run(self, desk: Desk) -> Outcome:
        """Build prompts until they are surely enough, drive the load, write the records."""
        who = identify(desk.url, key=desk.key)
        template = self.workload.chat_template_kwargs
        tokenizer = ServerTokenizer(desk.url, model=who.model, key=desk.key, template=template)
        try:
            singles = self._singles(desk, who, tokenizer)
            if bad := [record for _, record in singles if not record.ok]:
                return unusable(bad, ours=desk.pid > 0)
            prompt, alone = _quickest(singles)
            planned = self._schedule(desk.seed)
            asked = self._prompts(who, tokenizer, desk.seed, planned or self._enough(alone, prompt))
            settings = Settings(
                key=desk.key,
                cycle_s=alone,
                chunks_per_s=self._rate(asked, planned, alone),
                count_text=tokenizer.count_alone if who.kind == "openai" else None,
                on_progress=lambda progress: self._tell(desk, progress),
            )
            with PeakMemory(desk.pid) as memory:
                outcome = (
                    run_open(desk.url, asked.prompts, planned.due_ns, self.load, settings=settings)
                    if planned
                    else run_closed(desk.url, asked.prompts, self.load, settings=settings)
                )
        finally:
            tokenizer.close()
        said = (*(planned.notes if planned else ()), *asked.notes)
        outcome = replace(outcome, doubts=(*outcome.doubts, *said))
        outcome = replace(outcome, records=_with_digests(outcome.records, asked.prompts))
        return _collected(desk, self, outcome, memory)

    def _singles(self, desk: Desk, who: Identity, tokenizer: ServerTokenizer) -> list[tuple[Prompt, RequestRecord]]:
        """Two requests on the idle server, one after the other: the first warms it and may be slow for that, the second
        tells what a request takes, so that prompts can be counted. They are of another seed than what is measured."""
        prompts = self._prompts(who, tokenizer, desk.seed + 1, 2).prompts
        limits = Limits(first_token_s=self.load.first_token_s)
        return [
            (prompt, ask(desk.url, [prompt.body], 1, limits, key=desk.key, path=prompt.path)[0]) for prompt in prompts
        ]

    def _schedule(self, seed: int) -> Schedule | None:
        """Open loop: when requests are due; None for a closed loop."""
        return schedule(self.load.arrivals, seed, self._lasts) if self.load.arrivals else None

    @property
    def _lasts(self) -> Seconds:
        return self.load.warmup_s + self.load.window_s

    def _enough(self, alone: Seconds, prompt: Prompt) -> int:
        """Requests that no server can use up: of the shortest that may be drawn, one after the other."""
        workload = self.workload
        share = mean_output_tokens(workload) / prompt.output_tokens
        varied = workload.prompt_lengths or workload.output_lengths or workload.dataset or workload.inferencex
        quickest = (alone * min(1.0, share / 2) if varied else alone) / SPARE
        turns = workload.sessions.turns if workload.sessions else 1
        rounds = math.ceil(self._lasts / max(quickest, 1e-3)) + 1
        return min(MOST_PROMPTS, self.load.streams * -(-rounds // turns) * turns)

    def _rate(self, asked: PromptSet, planned: Schedule | None, alone: Seconds) -> float:
        """Chunks a second that are to be expected at most."""
        if planned:
            return sum(prompt.output_tokens for prompt in asked.prompts) / self._lasts
        return self.load.streams * mean_output_tokens(self.workload) / max(alone, 1e-3)

    def _prompts(self, who: Identity, tokenizer: ServerTokenizer, seed: int, wanted: int | Schedule) -> PromptSet:
        """So many, or those of a schedule: the rows of its trace, or as many sessions as arrive."""
        if isinstance(wanted, Schedule) and wanted.trace:
            return build_rows(self.workload, tokenizer, seed, wanted.trace, model=who.model, server=who.kind)
        turns = self.workload.sessions.turns if self.workload.sessions else 1
        count = len(wanted.due_ns) * turns if isinstance(wanted, Schedule) else wanted
        return build_set(self.workload, tokenizer, seed, count, model=who.model, server=who.kind)

    def _tell(self, desk: Desk, progress: Progress) -> None:
        desk.watch.progress(desk.trial, progress.elapsed_s, self._lasts, progress.chunks)


def _quickest(singles: Sequence[tuple[Prompt, RequestRecord]]) -> tuple[Prompt, Seconds]:
    """The request that took the least time for each token of its answer, and its seconds."""
    prompt, record = min(singles, key=lambda single: (single[1].end_ns - single[1].sent_ns) / single[0].output_tokens)
    return prompt, (record.end_ns - record.sent_ns) / NANOS_PER_SECOND


def unusable(singles: list[RequestRecord], *, ours: bool) -> Outcome:
    """A server that did not answer a request sent alone: silence is a hang, all else a refusal."""
    first = singles[0]
    if first.error.startswith("timeout"):
        return Outcome("failed", Failure("hang", f"a request sent alone was not answered: {first.detail}"))
    return refused(singles, ours=ours)


def refused(failed: list[RequestRecord], *, ours: bool = True) -> Outcome:
    """A server that answers requests with errors cannot be measured. One of somebody else has no log to look at, so
    what its last failures mean is said here."""
    first, last = failed[0], failed[-1]
    said = f"{first.error}: {first.detail}"
    if not ours and last.error in ("connect", "cut"):
        then = f"{last.error}: {last.detail}"
        said = f"the server stopped answering ({said if said == then else f'first {said}; last {then}'})"
    return Outcome("failed", Failure("requests-failed", said))


def _with_digests(records: Sequence[RequestRecord], prompts: Sequence[Prompt]) -> tuple[RequestRecord, ...]:
    """Records that say what was sent, so that two loads can be shown to have asked the same (measure/identity.py)."""
    digests = {prompt.index: prompt.digest() for prompt in prompts}
    return tuple(msgspec.structs.replace(record, asked=digests.get(record.index, "")) for record in records)


def _collected(desk: Desk, errand: LoadErrand, outcome: LoadOutcome, memory: PeakMemory) -> Outcome:
    before, after = outcome.counters or (None, None)
    measured = Measured(
        records=outcome.records,
        window=outcome.window,
        doubts=outcome.doubts,
        counters=Counters(
            before=before,
            after=after,
            memory_peak_mib=memory.peak_mib,
            memory=tuple(memory.samples),
            terms=errand.terms,
        ),
    )
    write_measured(desk.folder, measured)
    return judged(outcome, numbers(measured), errand.load, ours=desk.pid > 0)


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
