"""What a measuring trial does with a running server: prompts first, then the load, then records and numbers."""

import math
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
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import Metric, RequestRecord
from servesmith.recipe.model import Load, Workload
from servesmith.units import Seconds
from servesmith.workload.base import Prompt, PromptSet
from servesmith.workload.lengths import mean_output_tokens
from servesmith.workload.synthetic import build_rows, build_set

MOST_PROMPTS = 100_000
_RESERVE = 1.25
"""The first request warms the server, so later ones can be faster."""
MOST_FAILED = 0.05
"""Share of failed requests from which on a trial is failed: what is left over would flatter the server."""


class LoadErrand(msgspec.Struct, frozen=True):
    """Put this load of this workload on the server and measure."""

    workload: Workload
    load: Load

    def run(self, desk: Desk) -> Outcome:
        """Build prompts until they are surely enough, drive the load, write the records."""
        who = identify(desk.url, key=desk.key)
        template = self.workload.chat_template_kwargs
        tokenizer = ServerTokenizer(desk.url, model=who.model, key=desk.key, template=template)
        try:
            prompt, single = self._single(desk, who, tokenizer)
            if not single.ok:
                return refused([single])
            alone = (single.end_ns - single.sent_ns) / 1e9
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
        return _collected(desk, outcome, memory.peak_mib)

    def _single(self, desk: Desk, who: Identity, tokenizer: ServerTokenizer) -> tuple[Prompt, RequestRecord]:
        """One request on the idle server: it warms it, and no equal request of the load will be faster, so prompts can
        be counted. Its prompt is of another seed than those that are measured."""
        (prompt,) = self._prompts(who, tokenizer, desk.seed + 1, 1).prompts
        return prompt, ask(desk.url, [prompt.body], 1, key=desk.key, path=prompt.path)[0]

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
        quickest = (alone * min(1.0, share / 2) if varied else alone) / _RESERVE
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


def refused(failed: list[RequestRecord]) -> Outcome:
    """A server that answers requests with errors cannot be measured."""
    first = failed[0]
    return Outcome("failed", Failure("requests-failed", f"{first.error}: {first.detail}"))


def _collected(desk: Desk, outcome: LoadOutcome, peak_mib: float) -> Outcome:
    before, after = outcome.counters or (None, None)
    measured = Measured(
        records=outcome.records,
        window=outcome.window,
        doubts=outcome.doubts,
        counters=Counters(before=before, after=after, memory_peak_mib=peak_mib),
    )
    write_measured(desk.folder, measured)
    return _judged(outcome, numbers(measured))


def _judged(outcome: LoadOutcome, metrics: dict[str, Metric]) -> Outcome:
    """Failed or ok. A client that was too slow reports nothing: its latencies would be its own."""
    if outcome.hang:
        return Outcome("failed", Failure("hang", "no token from any stream within the first-token limit"), metrics)
    if outcome.client_too_slow:
        said = f"{outcome.client_too_slow}, so its latencies would be its own"
        return Outcome("failed", Failure("client-too-slow", said))
    failed = [record for record in outcome.records if not record.ok and record.error != "cancelled"]
    rate = metrics.get("output_tokens_per_s")
    if not failed and (rate is None or rate.value == 0):
        return Outcome("failed", Failure("hang", "not one token arrived while the window was open"), metrics)
    if len(failed) > MOST_FAILED * len(outcome.records) or rate is None:
        return refused(failed)
    return Outcome("ok", metrics=metrics)
