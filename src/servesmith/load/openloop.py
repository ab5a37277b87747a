"""The open loop: requests are sent when they are due, whatever the server does with those before."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from servesmith.load.asks import sessions_of
from servesmith.load.conduct import Settings, Times, conduct
from servesmith.load.crew import choose_workers
from servesmith.load.http1 import Address
from servesmith.load.job import Job
from servesmith.load.outcome import LoadOutcome, outcome_of
from servesmith.recipe.model import Load
from servesmith.units import NANOS_PER_SECOND, Nanos
from servesmith.workload.base import Prompt

_MOST_AHEAD = 4096
_RESERVE = 1.5
"""Connections opened ahead, over what the rate and the duration of a request need on average."""


def run_open(
    url: str,
    prompts: Sequence[Prompt],
    due_ns: Sequence[Nanos],
    load: Load,
    *,
    settings: Settings = Settings(),  # noqa: B008 - frozen
) -> LoadOutcome:
    """Send session i (mostly a single request) at `due_ns[i]` from the start; further turns follow their answers.

    Due times rise. The load lasts warm-up and window, then up to `arrivals.drain_s` for the answers still under way. A
    request that is due while `arrivals.max_in_flight` are under way waits, or is dropped, as `arrivals.overload` says;
    either is in its record. Several workers share the bound evenly. Raises as `run_closed`.
    """
    arrivals = load.arrivals
    assert arrivals is not None, "an open loop has arrivals"
    address, bound = Address.parse(url), arrivals.max_in_flight
    workers = min(choose_workers(load.workers, settings.chunks_per_s), bound or len(due_ns) or 1)
    sessions = sessions_of(prompts, address, settings.key)
    timed = [msgspec.structs.replace(session, due_ns=due) for session, due in zip(sessions, due_ns, strict=False)]
    limits = replace(settings.limits, first_token_s=load.first_token_s)
    ahead = _ahead(due_ns, settings.cycle_s, bound)
    jobs = [
        Job(
            address=address,
            limits=limits,
            arrivals=tuple(timed[number::workers]),
            connections=max(1, -(-ahead // workers)),
            most_in_flight=bound // workers + (number < bound % workers),
            drop=arrivals.overload == "drop",
            keep_text=settings.keep_text,
            kernel_stamps=settings.kernel_stamps,
        )
        for number in range(workers)
    ]
    times = Times(load.warmup_s, load.window_s, load.first_token_s, arrivals.drain_s)
    return outcome_of(conduct(address, jobs, times, settings), load, settings, workers)


def _ahead(due_ns: Sequence[Nanos], cycle_s: float, bound: int) -> int:
    """Connections that are surely needed: Little's law with the mean rate and the duration of a request alone."""
    if not due_ns:
        return 1
    rate = len(due_ns) / max(due_ns[-1] / NANOS_PER_SECOND, 1.0)
    need = int(rate * cycle_s * _RESERVE) + 8
    return min(need, _MOST_AHEAD, bound or need)
