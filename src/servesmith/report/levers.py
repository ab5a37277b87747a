"""What became of every lever, and what the kept ones are worth. Pure."""

from servesmith.report.nouns import Comparison, LeverRow, LeverStatus, Worth
from servesmith.stats.sequential import holm, p_value
from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Discarded, Event, Gated, Kept, Proposed, Screened
from servesmith.store.replay import Replay

Fates = dict[str, tuple[LeverStatus, str, str]]
"""Lever to what became of it, at which stage, and why."""

_ORDER: tuple[LeverStatus, ...] = ("kept", "undecided", "open", "discarded", "refused")


def lever_rows(run: Replay, comparisons: tuple[Comparison, ...]) -> tuple[LeverRow, ...]:
    """One row a lever: the kept ones first, then the rest in the order in which the journal first named them."""
    fates: Fates = {}
    scores: dict[str, float] = {}
    for event in run.events:
        scores |= event.scores if isinstance(event, Screened) else {}
        fates |= _fates(event, fates)
    confirmed = {c.subject: c.verdict for c in comparisons if c.stage == "confirm"}
    rows = [
        LeverRow(
            name=name,
            status=status,
            stage=stage,
            because=because,
            screened=scores.get(name),
            effect=confirmed[name].effect if name in confirmed else None,
            blocks=confirmed[name].blocks if name in confirmed else 0,
        )
        for name, (status, stage, because) in fates.items()
    ]
    return tuple(sorted(rows, key=lambda row: _ORDER.index(row.status)))


def ablation(comparisons: tuple[Comparison, ...], levers: tuple[LeverRow, ...], alpha: float) -> tuple[Worth, ...]:
    """What each kept lever is worth inside the final recipe.

    An ablation's block has the recipe without the lever as A and with it as B, so its effect is the lever's worth.
    With one kept lever the proof compared just that, so its blocks serve. `alpha` is that of one look: Holm splits it
    over the levers, so that over all looks and levers together a false claim is no more likely than for one lever.
    """
    kept = [row.name for row in levers if row.status in ("kept", "undecided")]
    found = {c.subject: c for c in comparisons if c.stage == "ablate"}
    kept = kept or list(found)  # a run of `ablate` keeps nothing: it measures what another run kept
    proof = next((c for c in reversed(comparisons) if c.stage == "prove"), None)
    if len(kept) == 1 and proof:
        found = {kept[0]: proof}
    stands = _stand({name: found[name].verdict for name in kept if name in found}, alpha)
    return tuple(
        Worth(
            lever=name,
            says=found[name].verdict.says,
            effect=found[name].verdict.effect,
            blocks=found[name].verdict.blocks,
            source="prove" if found[name].stage == "prove" else "ablate",
            holds=stands[name],
        )
        for name in stands
    )


def _stand(verdicts: dict[str, Verdict], alpha: float) -> dict[str, bool]:
    """Which levers are better, by Holm's correction if there are several. Fewer than two blocks claim nothing."""
    better = {name: verdict.says == "better" for name, verdict in verdicts.items()}
    if len(verdicts) < 2:
        return better
    ratios = {name: verdict.log_ratios for name, verdict in verdicts.items()}
    after = holm({name: p_value(values) if len(values) > 1 else 1.0 for name, values in ratios.items()}, alpha)
    return {name: better[name] and after[name] for name in verdicts}


def _fates(event: Event, so_far: Fates) -> Fates:
    """What this event makes of which levers; a later event overrules an earlier one."""
    match event:
        case Proposed():
            new: Fates = {name: ("open", "propose", "not yet tried") for name in event.levers if name not in so_far}
            refused: Fates = {name: ("refused", "propose", why) for name, why in event.refused.items()}
            return new | refused
        case Screened():
            passed: Fates = dict.fromkeys(event.kept, ("open", "screen", "passed the screening"))
            dropped: Fates = {name: ("discarded", "screen", why) for name, why in event.dropped.items()}
            return passed | dropped
        case Decided(stage="confirm"):
            return {event.subject: ("open", "confirm", event.verdict.because)}
        case Gated() if event.subject in so_far:
            return {event.subject: ("open", "gate", event.because)}
        case Kept():
            if event.undecided:
                return {event.lever: ("undecided", "ablate", event.because)}
            return {event.lever: ("kept", "confirm", event.because)}
        case Discarded():
            return {event.lever: ("discarded", event.stage, event.because)}
        case _:
            return {}
