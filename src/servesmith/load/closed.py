"""The closed loop: each stream sends its next request when its last one has ended."""

from collections.abc import Sequence
from dataclasses import replace

from servesmith.load.asks import sessions_of
from servesmith.load.conduct import Settings, Times, conduct
from servesmith.load.crew import choose_workers
from servesmith.load.http1 import Address
from servesmith.load.job import Job, Lane, Session
from servesmith.load.outcome import LoadOutcome, outcome_of
from servesmith.recipe.model import Load
from servesmith.units import NANOS_PER_SECOND, Nanos
from servesmith.workload.base import Prompt


def run_closed(url: str, prompts: Sequence[Prompt], load: Load, *, settings: Settings = Settings()) -> LoadOutcome:  # noqa: B008 - frozen
    """Drive `load.streams` streams through warm-up and window, each prompt at most once.

    Stream s of n takes sessions s, s + n, s + 2n ..., so that what it asks does not hang on how fast others were.
    `prompts` must be enough; that they ran out is a doubt. Raises InputError if `url` is no address or more workers are
    asked for than there are cores, MachineError if the host has no address or a worker dies. What goes wrong with a
    request is in its record.
    """
    address = Address.parse(url)
    workers = min(choose_workers(load.workers, settings.chunks_per_s), load.streams)
    limits = replace(settings.limits, first_token_s=load.first_token_s)
    lanes = _lanes(sessions_of(prompts, address, settings.key), load, settings)
    jobs = [
        Job(
            address=address,
            limits=limits,
            lanes=tuple(lanes[number::workers]),
            keep_text=settings.keep_text,
            kernel_stamps=settings.kernel_stamps,
        )
        for number in range(workers)
    ]
    times = Times(load.warmup_s, load.window_s, load.first_token_s)
    return outcome_of(conduct(address, jobs, times, settings), load, settings, workers)


def _lanes(sessions: Sequence[Session], load: Load, settings: Settings) -> list[Lane]:
    return [
        Lane(stream, _offset(stream, load, settings), tuple(sessions[stream :: load.streams]))
        for stream in range(load.streams)
    ]


def _offset(stream: int, load: Load, settings: Settings) -> Nanos:
    """Start of a stream: its share of a request's duration, so that they do not walk in step."""
    if load.starts == "together":
        return 0
    spread = min(load.warmup_s, settings.cycle_s or load.warmup_s)
    return int(spread * NANOS_PER_SECOND) * stream // load.streams
