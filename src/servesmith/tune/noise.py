"""The baseline against itself: how loud is this machine, and what is the smallest gain that could be shown?"""

from servesmith.errors import MachineError
from servesmith.recipe.model import Recipe
from servesmith.stats.compare import noise_of
from servesmith.store.events import NoiseMeasured, Noted
from servesmith.tune.blocks import Arena, Blocks, Pairing
from servesmith.tune.run import Run


def measure_noise(run: Run, arena: Arena, baseline: Recipe) -> NoiseMeasured:
    """A/A blocks. A significant A/A is repeated once on fresh blocks (one in twenty is significant by chance alone);
    if that is significant too, nothing measured here can be trusted and the run ends."""
    blocks = _started(arena.fixed(Pairing("noise", baseline, baseline), run.settings.noise_blocks))
    if blocks.verdict.says in ("better", "worse"):
        run.record(Noted(note=f"The baseline differed from itself, so A/A was repeated: {blocks.verdict.because}"))
        blocks = _started(arena.fixed(Pairing("noise-again", baseline, baseline), run.settings.noise_blocks))
    if blocks.verdict.says in ("better", "worse"):
        raise MachineError(
            f"The baseline differs from itself: {blocks.verdict.because}",
            "Something else moves this machine (another load, clocks, temperature). Run `servesmith doctor`.",
        )
    noise = noise_of(blocks.verdict.log_ratios, run.settings.rules())
    detectable = {str(count): gain for count, gain in noise.detectable.items()}
    event = NoiseMeasured(verdict=blocks.verdict, sd=noise.sd, detectable=detectable, trials=blocks.trials)
    run.record(event)
    return event


def _started(blocks: Blocks) -> Blocks:
    if (failed := blocks.failed) is not None:
        raise MachineError(
            f"The baseline itself does not run: {failed.ending}, {failed.failure}: {failed.log_line}",
            f"Mend the recipe first; the whole log is in {failed.folder}/engine.log.",
        )
    return blocks
