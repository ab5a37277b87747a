"""What may be published: baseline against the final recipe on fresh starts, their number fixed beforehand."""

from servesmith.recipe.model import Case
from servesmith.stats.verdict import Verdict
from servesmith.store.events import Decided, Noted
from servesmith.tune.blocks import Arena, Pairing
from servesmith.tune.confirm import Stack, riskiest
from servesmith.tune.gating import Gatekeeper
from servesmith.tune.run import Run


def prove(run: Run, case: Case, arena: Arena, gate: Gatekeeper, stack: Stack) -> Verdict | None:
    """The proof's verdict and the full gate on the final recipe; None if there is nothing to prove."""
    del case
    if not stack.levers:
        run.record(Noted(note="No lever is kept, so the final recipe is the baseline and there is nothing to prove."))
        return None
    final = stack.recipe
    secondary = next((lever.secondary for lever in stack.levers if lever.secondary), "")
    blocks = arena.fixed(
        Pairing(f"prove/{final.digest()[:6]}", stack.baseline, final, secondary), run.settings.proof_blocks
    )
    run.record(
        Decided(
            stage="prove", subject="final", verdict=blocks.verdict, trials=blocks.trials, secondary=blocks.secondary
        )
    )
    gate.judge("final", final, "numerics" if run.settings.full_final_gate else riskiest(stack.levers))
    return blocks.verdict
