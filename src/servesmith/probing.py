"""What a trial does with a server where no load is measured: see how it came up, or how fast it reads prompts."""

from pathlib import Path
from typing import Literal

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.engine.base import Failure
from servesmith.load.client import ask, exchange_all
from servesmith.load.decode import Turn, decode
from servesmith.load.http1 import Address, request_bytes
from servesmith.load.probe import Identity, ServerTokenizer, identify
from servesmith.load.wire import Limits
from servesmith.measure.evidence import Counters, Measured, write_measured
from servesmith.measure.prefill import prefill_numbers, prefill_window
from servesmith.measure.records import RequestRecord
from servesmith.measure.startup import startup_numbers, write_startup
from servesmith.recipe.model import Workload
from servesmith.units import NANOS_PER_SECOND, Seconds
from servesmith.workload.base import Prompt
from servesmith.workload.synthetic import build


class StartErrand(msgspec.Struct, frozen=True):
    """Keep the stamps of the start; nothing is asked of the server beyond the token that showed it was ready."""

    caches: Literal["cold", "warm"]

    def run(self, desk: Desk) -> Outcome:
        """Write start.json."""
        if desk.startup is None:
            return Outcome("failed", Failure("wrong-server", "the server was started by someone else"))
        startup = msgspec.structs.replace(desk.startup, caches=self.caches)
        write_startup(desk.folder, startup)
        return Outcome("ok", metrics=startup_numbers(startup))


class PrefillErrand(msgspec.Struct, frozen=True):
    """Prompts of one length, answers of one token, so many at a time, each prompt once."""

    workload: Workload
    prompts: int
    concurrency: int
    first_token_s: Seconds = 600.0

    def run(self, desk: Desk) -> Outcome:
        """One prompt alone to warm up, then all; every record is kept, also of those that failed."""
        who = identify(desk.url, key=desk.key)
        tokenizer = ServerTokenizer(desk.url, model=who.model, key=desk.key)
        try:
            (first,) = self._built(who, tokenizer, desk.seed + 1, 1)
            prompts = self._built(who, tokenizer, desk.seed, self.prompts)
        finally:
            tokenizer.close()
        limits = Limits(first_token_s=self.first_token_s)
        alone = ask(desk.url, [first.body], 1, limits, key=desk.key, path=first.path)[0]
        if not alone.ok:
            return _refused(alone)
        seconds = (alone.end_ns - alone.sent_ns) / NANOS_PER_SECOND
        desk.watch.progress(desk.trial, 0.0, seconds * self.prompts, 0)  # an upper bound: one after the other
        return keep_prefill(desk.folder, self._sent(desk, prompts, limits))

    def _built(self, who: Identity, tokenizer: ServerTokenizer, seed: int, count: int) -> tuple[Prompt, ...]:
        return build(one_token(self.workload), tokenizer, seed, count, model=who.model, server=who.kind)

    def _sent(self, desk: Desk, prompts: tuple[Prompt, ...], limits: Limits) -> list[RequestRecord]:
        address = Address.parse(desk.url)
        requests = [request_bytes(address, prompt.path, prompt.body, desk.key) for prompt in prompts]
        exchanges = exchange_all(address, requests, self.concurrency, limits)
        return decode(
            [
                Turn(exchange, prompt.index, prompt_tokens=prompt.prompt_tokens)
                for exchange, prompt in zip(exchanges, prompts, strict=True)
            ]
        )


def one_token(workload: Workload) -> Workload:
    """The workload with answers of a single token, whatever a recipe's shortest output is."""
    return workload.model_copy(update={"extra": {**workload.extra, "max_tokens": 1, "min_tokens": None}})


def keep_prefill(folder: Path, records: list[RequestRecord]) -> Outcome:
    """Write the records and give their numbers. Half of the prompts must have gone well."""
    measured = Measured(records=records, window=prefill_window(records), doubts=(), counters=Counters(probe="prefill"))
    write_measured(folder, measured)
    failed = [record for record in records if not record.ok]
    if 2 * len(failed) > len(records):
        return _refused(failed[0])
    return Outcome("ok", metrics=prefill_numbers(records))


def _refused(record: RequestRecord) -> Outcome:
    return Outcome("failed", Failure("requests-failed", f"{record.error}: {record.detail}"))
