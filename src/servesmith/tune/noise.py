"""The baseline against itself: how loud is this machine, and what is the smallest gain that could be shown?"""

from servesmith.recipe.model import Recipe
from servesmith.stats.compare import Noise, noise_of
from servesmith.store.events import NoiseMeasured, Noted
from servesmith.tune.blocks import Arena, Pairing
from servesmith.tune.run import IncumbentFailed, Run


def measure_noise(run: Run, arena: Arena, baseline: Recipe) -> Noise:
    """A/A blocks. A significant A/A is repeated once on fresh blocks (one in twenty is significant by chance alone);
    if that is significant too, nothing measured here can be trusted. The noise is that of all blocks together."""
    sound = ("A", "B")
    blocks = arena.fixed(Pairing("noise", baseline, baseline, sound=sound), run.settings.noise_blocks)
    trials, ratios = blocks.trials, blocks.verdict.log_ratios
    if blocks.verdict.says in ("better", "worse"):
        run.record(Noted(note=f"The baseline differed from itself, so A/A was repeated: {blocks.verdict.because}"))
        blocks = arena.fixed(Pairing("noise-again", baseline, baseline, sound=sound), run.settings.noise_blocks)
        trials, ratios = trials + blocks.trials, ratios + blocks.verdict.log_ratios
    if blocks.verdict.says in ("better", "worse"):
        raise IncumbentFailed(
            f"The baseline differs from itself, twice: {blocks.verdict.because}",
            "Something else moves this machine (another load, clocks, temperature). Run `servesmith doctor`.",
        )
    noise = noise_of(ratios, run.settings.rules())
    verdict = arena.judged(trials)
    detectable = {str(count): gain for count, gain in noise.detectable.items()}
    run.record(
        NoiseMeasured(
            verdict=verdict, sd=noise.sd, detectable=detectable, trials=trials, high=noise.high, doubts=noise.doubts
        )
    )
    return noise
