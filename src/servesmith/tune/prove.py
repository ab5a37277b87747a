"""What may be published: baseline against the final recipe on fresh starts, their number fixed beforehand."""

import msgspec

from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Gated, Noted
from servesmith.tune.blocks import Arena, Pairing
from servesmith.tune.confirm import Stack, riskiest, why_not
from servesmith.tune.gating import Gatekeeper
from servesmith.tune.run import Run


class Proof(msgspec.Struct, frozen=True):
    """Verdict and gate of the final recipe. `against`: why it must not be published; empty if nothing does."""

    verdict: Verdict
    gated: Gated
    against: str


def prove(run: Run, arena: Arena, gate: Gatekeeper, stack: Stack) -> Proof | None:
    """Blocks and the full gate on the final recipe; None if no lever is kept, so that there is nothing to prove."""
    if not stack.levers:
        run.record(Noted(note="No lever is kept, so the final recipe is the baseline and there is nothing to prove."))
        return None
    final = stack.recipe
    secondary = next((lever.secondary for lever in stack.levers if lever.secondary), "")
    pairing = Pairing(f"prove/{final.digest()[:6]}", stack.baseline, final, secondary)
    blocks = arena.fixed(pairing, run.settings.proof_blocks)
    decided = Decided(
        stage="prove", subject="final", verdict=blocks.verdict, trials=blocks.trials, secondary=blocks.secondary
    )
    run.record(decided)
    full = run.settings.full_final_gate
    gated = gate.judge_final(final, "numerics" if full else riskiest(stack.levers), fresh=full)
    pays = any(verdict.says == "better" for verdict in (blocks.verdict, *blocks.secondary.values()))
    against = why_not(blocks, 0.0) if blocks.failed or blocks.verdict.says == "worse" or not pays else ""
    return Proof(blocks.verdict, gated, against or ("" if gated.passed else f"the gate: {gated.because}"))
