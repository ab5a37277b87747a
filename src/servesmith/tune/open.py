"""Opening a run's folder: what was given, as it was resolved, and the journal's first event."""

import platform
import re
from pathlib import Path

import msgspec
import psutil

from servesmith import __version__
from servesmith.errors import InputError, MachineError, Problem
from servesmith.load.probe import identify
from servesmith.recipe.files import dump_case, read_case
from servesmith.recipe.levers import dump_levers, read_levers
from servesmith.store.claim import claim
from servesmith.store.events import Resumed, RunOpened
from servesmith.store.hashing import file_digest
from servesmith.store.journal import Journal, read_events
from servesmith.store.replay import opened_of
from servesmith.store.watch import Watcher
from servesmith.trial import bearer_key
from servesmith.tune.executor import executor_for
from servesmith.tune.plan import Plan
from servesmith.tune.preflight import preflight
from servesmith.tune.run import Clock, Run
from servesmith.tune.settings import Settings, settings_from
from servesmith.tune.virtual import is_virtual


class Opened(msgspec.Struct, frozen=True):
    """A run with the inputs that its folder holds."""

    run: Run
    plan: Plan


def open_run(plan: Plan, runs: Path, watch: Watcher, clock: Clock) -> Opened:
    """A new folder runs/<time>-<name> with the inputs as resolved, once nothing is found wrong with the plan.

    Raises InputError with all that is wrong, MachineError if the engine is not here, a server of someone else does
    not answer, or the folder cannot be written.
    """
    preflight(plan)
    _answers(plan)
    folder = _new_folder(runs, clock(), plan.case.recipe.name)
    inputs = {"recipe.yaml": dump_case(plan.case), "levers.yaml": dump_levers(plan.levers)}
    if plan.rival is not None:
        inputs["rival.yaml"] = dump_case(plan.rival)
    for name, text in inputs.items():
        (folder / name).write_text(text)
    journal = Journal.create(folder)
    journal.append(
        RunOpened(
            verb=plan.verb,
            name=folder.name,
            servesmith=__version__,
            case_hash=plan.case.digest(),
            seed=plan.settings.seed,
            at=clock(),
            settings={**plan.settings.as_values(), "metric": plan.case.goal.metric, **plan.extra},
            files={name: file_digest(folder / name) for name in inputs},
            machine=machine(),
            shared=_claimed(plan, clock),
        )
    )
    return Opened(Run(journal, executor_for(plan.case), watch, plan.settings, clock), plan)


def resume_run(folder: Path, watch: Watcher, clock: Clock, verb: str = "tune") -> Opened:
    """The run of this folder, ready to go on where it stopped. Its own settings hold, not today's defaults.

    A finished run is replayed and measures nothing. Raises InputError, with nothing written, if there is no run here
    or if it is one of another verb.
    """
    before = opened_of(read_events(folder)).verb
    if before != verb:
        message = f"is a run of `{before}`, and only one of `{verb}` can be gone on with."
        raise InputError(Problem(message, f"Start `servesmith {before}` anew.", file=str(folder)))
    journal = Journal.resume(folder)
    plan = plan_of(folder, journal.opened)
    if len(journal.events) > 1:
        journal.append(Resumed(at=clock(), shared=_claimed(plan, clock)))
    return Opened(Run(journal, executor_for(plan.case), watch, plan.settings, clock), plan)


def plan_of(folder: Path, opened: RunOpened) -> Plan:
    """The plan that a folder's files hold, for resuming and for reading."""
    rival = folder / "rival.yaml"
    return Plan(
        verb=opened.verb,
        case=read_case(folder / "recipe.yaml"),
        settings=settings_from(opened.settings),
        extra={
            name: value
            for name, value in opened.settings.items()
            if name not in (*Settings.__struct_fields__, "metric")
        },
        levers=read_levers(folder / "levers.yaml"),
        rival=read_case(rival) if rival.exists() else None,
    )


def machine() -> dict[str, str]:
    """What this machine is, as far as it says without special rights."""
    return {
        "cpu": _cpu_model(),
        "cores": str(psutil.cpu_count() or 0),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)):
        return found.group(1)
    return platform.processor() or platform.machine()


def _claimed(plan: Plan, clock: Clock) -> str:
    """Who else measures here. Virtual time is not disturbed by anybody."""
    return "" if is_virtual(plan.case.recipe) else claim(clock())


def _answers(plan: Plan) -> None:
    """A server that someone else runs is asked who it is before a folder is made for nothing."""
    for case in (plan.case, plan.rival):
        if case is not None and case.recipe.url:
            identify(case.recipe.url, key=bearer_key(case.recipe))


def _new_folder(runs: Path, at: str, name: str) -> Path:
    stem = re.sub(r"[^0-9T]", "", at[:19]).replace("T", "-") + f"-{name}"
    for number in range(1, 1000):
        folder = runs / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            message = f"Cannot make the folder {folder}: {error.strerror}."
            raise MachineError(message, "Choose a folder that can be written by --runs.") from None
        return folder
    raise InputError(Problem("a thousand runs of this second exist.", "Wait a second.", file=str(runs)))
