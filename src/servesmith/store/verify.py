"""Recompute a run from its raw records: files by their hashes, numbers, verdicts and gates from what was stored."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from servesmith.errors import EvidenceError
from servesmith.measure.answers import ANSWERS, GREEDY, read_sheets
from servesmith.measure.evidence import RECORDS, numbers, read_measured
from servesmith.measure.records import Metric
from servesmith.measure.startup import STARTUP, read_startup, startup_numbers
from servesmith.recipe.files import read_case
from servesmith.recipe.model import Case
from servesmith.stats.compare import noise_of
from servesmith.stats.gate import GateRules
from servesmith.stats.rules import Rules
from servesmith.stats.verdict import Verdict
from servesmith.store.decide import Pair, pairs_of, rules_of, secondary_verdict, verdict_of
from servesmith.store.events import Decided, Gated, GreedyAgreement, NoiseMeasured, RunOpened, TrialEnded, TrialResult
from servesmith.store.gates import agreement, discordance, judge_sheets
from servesmith.store.hashing import file_digest, folder_digests
from servesmith.store.identity import check_identity
from servesmith.store.journal import JOURNAL, read_events
from servesmith.store.knee import check_knees
from servesmith.store.ranged import check_ranges
from servesmith.store.replay import RESUMABLE, Replay, replay
from servesmith.store.soak import check_soaks

_RESTORE = "Restore it from where the evidence was copied from; if that is not possible, the run proves nothing."


class Check(msgspec.Struct, frozen=True):
    """One kind of evidence: does all of it say what it said when it was recorded?"""

    name: str
    ok: bool
    detail: str
    """What was compared; if it is not ok, what differs."""
    file: str = ""
    """The first file that differs, relative to the run's folder."""


Step = Callable[[], str]
"""Compares one kind of evidence and says what it compared. Raises EvidenceError at the first difference."""


class Evidence(msgspec.Struct, frozen=True):
    """A run's folder as its journal describes it."""

    folder: Path
    run: Replay
    case: Case
    rules: Rules


def verify_run(folder: Path) -> tuple[Check, ...]:
    """Every check of a run's own records. Numbers are only recomputed where journal and files are sound.

    A difference is a check that is not ok. Raises InputError if there is no run here.
    """
    journal = checked("journal", lambda: _journal(folder))
    if not journal.ok:
        return (journal,)
    run = replay(read_events(folder))
    closed = checked("closed", lambda: _closed(run))
    files = (checked("inputs", lambda: _inputs(folder, run.opened)), checked("files", lambda: _files(folder, run)))
    if not all(check.ok for check in files):
        return (journal, closed, *files)
    evidence = Evidence(folder, run, read_case(folder / "recipe.yaml"), rules_of(run.opened))
    steps = {"identity": _identity, "numbers": _numbers, "noise": _noise, "verdicts": _verdicts, "gates": _gates}
    steps |= _ALONE.get(run.opened.verb, {})
    return (journal, closed, *files, *(checked(name, lambda step=step: step(evidence)) for name, step in steps.items()))


def checked(name: str, step: Step) -> Check:
    """Run one step; an EvidenceError becomes a check that is not ok."""
    try:
        return Check(name, ok=True, detail=step())
    except EvidenceError as error:
        return Check(name, ok=False, detail=error.message.removeprefix(f"{error.file}: "), file=error.file)


def require(checks: Sequence[Check]) -> None:
    """Raise EvidenceError naming every file that differs, if one does."""
    bad = [check for check in checks if not check.ok]
    if bad:
        others = "".join(f"\n{check.file}: {check.detail}" for check in bad[1:])
        raise EvidenceError(bad[0].file, f"{bad[0].detail}{others}", _RESTORE)


def _journal(folder: Path) -> str:
    try:
        events = read_events(folder)
    except EvidenceError as error:
        raise EvidenceError(JOURNAL, error.message.partition(": ")[2]) from error
    run = replay(events)
    data = (folder / JOURNAL).read_bytes()
    if run.closed is not None and (data.count(b"\n") != len(events) or not data.endswith(b"\n")):
        raise EvidenceError(JOURNAL, "something stands behind the end of the run.")
    return f"{len(events)} events, an unbroken chain"


def _closed(run: Replay) -> str:
    """A chain of checksums does not show that its end is gone, so the last event must be an end."""
    if run.closed is None:
        verb = run.opened.verb
        go_on = f"`servesmith {verb} --resume` goes on with it"
        resumed = go_on if verb in RESUMABLE else f"a {verb} is measured anew"
        what = f"has no end: the run was broken off ({resumed}), or its end was cut off."
        raise EvidenceError(JOURNAL, what)
    return f"the run came to its end: {run.closed.ending}"


def _inputs(folder: Path, opened: RunOpened) -> str:
    for name, digest in opened.files.items():
        _same_file(folder, name, digest)
    if "recipe.yaml" in opened.files and read_case(folder / "recipe.yaml").digest() != opened.case_hash:
        raise EvidenceError("recipe.yaml", f"is not the case {opened.case_hash} that the journal names.")
    return f"{', '.join(opened.files)} as they were given"


def _files(folder: Path, run: Replay) -> str:
    """Every file of every recorded trial, and no file that was not recorded."""
    results = [event.result for event in run.events if isinstance(event, TrialEnded)]
    latest = {result.folder: result for result in results}
    for result in latest.values():
        for name, digest in result.files.items():
            _same_file(folder, f"{result.folder}/{name}", digest)
        for name in sorted(folder_digests(folder / result.folder).keys() - result.files.keys()):
            raise EvidenceError(f"{result.folder}/{name}", "was not there when the trial ended.", "Remove it.")
    return f"{sum(len(result.files) for result in latest.values())} files of {len(latest)} trials have their SHA-256"


def _same_file(folder: Path, name: str, digest: str) -> None:
    path = folder / name
    if not path.is_file():
        raise EvidenceError(name, "is missing.")
    if (found := file_digest(path)) != digest:
        raise EvidenceError(name, f"was changed: its SHA-256 is {found[:12]}…, recorded is {digest[:12]}….")


def _identity(evidence: Evidence) -> str:
    return check_identity(evidence.folder, evidence.run, evidence.case.recipe.digest())


def _numbers(evidence: Evidence) -> str:
    """Every metric of every trial from its raw records."""
    compared = 0
    for result in evidence.run.results.values():
        if result.metrics:
            _same_numbers(result, _recomputed(evidence.folder, result))
            compared += len(result.metrics)
    return f"{compared} numbers of {len(evidence.run.results)} trials follow from the raw records"


def _recomputed(folder: Path, result: TrialResult) -> dict[str, Metric]:
    where = folder / result.folder
    if RECORDS in result.files:
        return numbers(read_measured(where))
    if any(name.startswith(f"{ANSWERS}/") for name in result.files):
        return {
            f"accuracy_{sheet.task}": Metric(sheet.right / max(len(sheet.answers), 1), "fraction", "higher")
            for sheet in read_sheets(where / ANSWERS)
        }
    if STARTUP in result.files:
        return startup_numbers(read_startup(where))
    raise EvidenceError(result.folder, "has numbers in the journal but no raw records.")


def _same_numbers(result: TrialResult, found: dict[str, Metric]) -> None:
    for key in sorted(result.metrics.keys() | found.keys()):
        told, is_now = result.metrics.get(key), found.get(key)
        if told != is_now:
            what = f"{key} of trial {result.key} is {_told(told)}, the raw records give {_told(is_now)}."
            raise EvidenceError(JOURNAL, what)


def _told(metric: Metric | None) -> str:
    if metric is None:
        return "absent"
    return f"{metric.value!r} {metric.unit}{f' with doubts {list(metric.doubts)}' if metric.doubts else ''}"


def _noise(evidence: Evidence) -> str:
    """A/A verdicts."""
    measured = [event for event in evidence.run.events if isinstance(event, NoiseMeasured)]
    for event in measured:
        verdict = _verdict(evidence, event.trials, planned=len(event.trials) // 2)
        _same_verdict("the noise", event.verdict, verdict)
        noise = noise_of(verdict.log_ratios, evidence.rules)
        if (event.sd, event.detectable) != (noise.sd, {str(n): gain for n, gain in noise.detectable.items()}):
            raise EvidenceError(JOURNAL, f"the noise is told as {event.sd!r}, its blocks give {noise.sd!r}.")
    return f"{len(measured)} A/A measurement{'s' * (len(measured) != 1)} recomputed"


def _verdicts(evidence: Evidence) -> str:
    decisions = [event for event in evidence.run.events if isinstance(event, Decided)]
    for decided in decisions:
        _decision(evidence, decided)
    return f"{len(decisions)} verdicts follow from the numbers of their blocks"


def _decision(evidence: Evidence, decided: Decided) -> None:
    """A proof stands on as many blocks as the settings fixed beforehand, or decides nothing."""
    name, settings = f"{decided.stage} {decided.subject}", evidence.run.opened.settings
    blocks = len(decided.trials) // 2
    planned = int(settings.get("proof_blocks", blocks)) if decided.stage == "prove" else None
    verdict = _verdict(evidence, decided.trials, planned=planned)
    _same_verdict(name, decided.verdict, verdict)
    for metric, told in decided.secondary.items():
        pairs = _pairs(evidence, decided.trials, (metric,))
        found = secondary_verdict(pairs, evidence.case.goal, metric, evidence.rules, planned=planned)
        _same_verdict(f"{name}, {metric}", told, found)


def _verdict(evidence: Evidence, keys: Sequence[str], *, planned: int | None = None) -> Verdict:
    pairs = _pairs(evidence, keys, (evidence.case.goal.metric, *evidence.case.goal.limits))
    return verdict_of(pairs, evidence.case.goal, evidence.rules, planned=planned)


def _pairs(evidence: Evidence, keys: Sequence[str], metrics: Sequence[str]) -> list[Pair]:
    """Whole blocks of recorded trials that have these metrics."""
    for key in keys:
        if (result := evidence.run.results.get(key)) is None:
            raise EvidenceError(JOURNAL, f"a verdict stands on trial {key}, which is not recorded.")
        for metric in metrics:
            if metric not in result.metrics:
                raise EvidenceError(JOURNAL, f"a verdict stands on trial {key}, which has no {metric}.")
    if len(keys) % 2:
        raise EvidenceError(JOURNAL, f"a verdict stands on half a block: {keys[-1]} has no other arm.")
    return pairs_of(keys, evidence.run.results)


def _same_verdict(name: str, told: Verdict, found: Verdict) -> None:
    for field in Verdict.__struct_fields__:
        before, is_now = getattr(told, field), getattr(found, field)
        if before != is_now:
            raise EvidenceError(JOURNAL, f"verdict {name}: {field} is told as {before}, its blocks give {is_now}.")


def _knee(evidence: Evidence) -> str:
    return check_knees(evidence.folder, evidence.run, evidence.case.goal.limits, evidence.case.recipe.digest())


def _ranges(evidence: Evidence) -> str:
    return check_ranges(evidence.folder, evidence.run, evidence.case.recipe)


def _soak(evidence: Evidence) -> str:
    return check_soaks(evidence.folder, evidence.run)


def _gates(evidence: Evidence) -> str:
    """Every gate that came to a decision, from the stored answers of its three trials."""
    gates = [event for event in evidence.run.events if isinstance(event, Gated)]
    for gated in gates:
        if gated.tasks:
            _gate(evidence, gated)
        elif gated.passed:
            raise EvidenceError(JOURNAL, f"gate of {gated.subject}: passed is told, but no task was judged.")
    return f"{sum(bool(gated.tasks) for gated in gates)} gates follow from the stored answers"


def _gate(evidence: Evidence, gated: Gated) -> None:
    folders = _gate_folders(evidence, gated)
    a, again, b = (read_sheets(folder / ANSWERS) for folder in folders)
    rules = GateRules(
        margin=evidence.case.quality.margin, alpha=_gate_alpha(gated), aa_discordance=discordance(a, again)
    )
    found = judge_sheets(a, b, rules)
    greedy = _agreement(folders) if gated.greedy else None
    for field, before, is_now in (
        ("passed", gated.passed, found.passed),
        ("tasks", gated.tasks, found.tasks),
        ("greedy", gated.greedy, greedy),
    ):
        if before != is_now:
            raise EvidenceError(
                JOURNAL, f"gate of {gated.subject}: {field} is told as {before}, the answers give {is_now}."
            )


def _gate_alpha(gated: Gated) -> float:
    """The share of alpha that this gate was given: a run splits it over its gates, so it is never more than all."""
    alpha, whole = gated.tasks[-1].alpha, GateRules().alpha
    if not 0 < alpha <= whole:
        raise EvidenceError(JOURNAL, f"gate of {gated.subject}: alpha is told as {alpha}, it is at most {whole}.")
    return alpha


def _gate_folders(evidence: Evidence, gated: Gated) -> list[Path]:
    """Folders of the baseline, the baseline restarted and the candidate, each with the recipe that it must have."""
    baseline = evidence.case.recipe.digest()
    expected = (baseline, baseline, gated.recipe_hash)
    if len(set(gated.trials)) != len(expected):
        raise EvidenceError(JOURNAL, f"gate of {gated.subject}: it names {len(set(gated.trials))} trials, not 3.")
    for key, recipe in zip(gated.trials, expected, strict=True):
        result = evidence.run.results.get(key)
        if result is None:
            raise EvidenceError(JOURNAL, f"gate of {gated.subject}: its trial {key} is not recorded.")
        if result.recipe_hash != recipe:
            what = f"gate of {gated.subject}: {key} served recipe {result.recipe_hash}, not {recipe}."
            raise EvidenceError(JOURNAL, what)
    return [evidence.folder / evidence.run.results[key].folder for key in gated.trials]


def _agreement(folders: Sequence[Path]) -> GreedyAgreement:
    a, again, b = (_texts(folder / GREEDY) for folder in folders)
    return agreement(a, b, again)


def _texts(path: Path) -> list[str | None]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[str | None])
    except (OSError, msgspec.MsgspecError) as error:
        raise EvidenceError(str(path), f"cannot be read: {error}.") from error


_ALONE: dict[str, dict[str, Callable[[Evidence], str]]] = {
    "knee": {"knee": _knee},
    "prefill": {"ranges": _ranges},
    "start": {"ranges": _ranges},
    "soak": {"soak": _soak},
}
"""Verbs that measure one thing of their own, and how that is recomputed."""
