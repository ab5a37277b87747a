"""What a measuring trial does with a running server: prompts first, then the load, then records and numbers."""

import math

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.engine.base import Failure
from servesmith.engine.memory import PeakMemory
from servesmith.load.client import ask
from servesmith.load.closed import LoadOutcome, Progress, Settings, run_closed
from servesmith.load.probe import Identity, ServerTokenizer, identify
from servesmith.measure.evidence import Counters, Measured, numbers, write_measured
from servesmith.measure.records import Metric, RequestRecord
from servesmith.recipe.model import Load, Workload
from servesmith.units import Seconds
from servesmith.workload.base import Prompt
from servesmith.workload.synthetic import build

MOST_PROMPTS = 100_000
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
            single = self._single(desk, who, tokenizer)
            if not single.ok:
                return refused([single])
            alone = (single.end_ns - single.sent_ns) / 1e9
            prompts = self._prompts(who, tokenizer, desk.seed, self._enough(alone))
            settings = Settings(
                key=desk.key,
                cycle_s=alone,
                chunks_per_s=self.load.streams * self.workload.output_tokens / max(alone, 1e-3),
                count_text=tokenizer.count_alone if who.kind == "openai" else None,
                on_progress=lambda progress: self._tell(desk, progress),
            )
            with PeakMemory(desk.pid) as memory:
                outcome = run_closed(desk.url, prompts, self.load, settings=settings)
        finally:
            tokenizer.close()
        return _collected(desk, outcome, memory)

    def _single(self, desk: Desk, who: Identity, tokenizer: ServerTokenizer) -> RequestRecord:
        """One request on the idle server: it warms it, and no request of the load will be faster, so prompts can be
        counted. Its prompt is of another seed than those that are measured."""
        (prompt,) = self._prompts(who, tokenizer, desk.seed + 1, 1)
        return ask(desk.url, [prompt.body], 1, key=desk.key, path=prompt.path)[0]

    def _enough(self, alone: Seconds) -> int:
        rounds = math.ceil((self.load.warmup_s + self.load.window_s) / max(alone, 1e-3)) + 1
        return min(MOST_PROMPTS, self.load.streams * rounds)

    def _prompts(self, who: Identity, tokenizer: ServerTokenizer, seed: int, count: int) -> tuple[Prompt, ...]:
        return build(self.workload, tokenizer, seed, count, model=who.model, server=who.kind)

    def _tell(self, desk: Desk, progress: Progress) -> None:
        total = self.load.warmup_s + self.load.window_s
        desk.watch.progress(desk.trial, progress.elapsed_s, total, progress.chunks)


def refused(failed: list[RequestRecord]) -> Outcome:
    """A server that answers requests with errors cannot be measured."""
    first = failed[0]
    return Outcome("failed", Failure("requests-failed", f"{first.error}: {first.detail}"))


def _collected(desk: Desk, outcome: LoadOutcome, memory: PeakMemory) -> Outcome:
    before, after = outcome.counters or (None, None)
    measured = Measured(
        records=outcome.records,
        window=outcome.window,
        doubts=outcome.doubts,
        counters=Counters(before=before, after=after, memory_peak_mib=memory.peak_mib, memory=tuple(memory.samples)),
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
