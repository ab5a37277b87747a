"""Everything that steers a run's decisions, in one frozen place. It is written into the journal's first event."""

import msgspec

from servesmith.stats.sequential import Rules


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured, and when enough is enough. Replay uses the values of the journal, not these defaults."""

    seed: int = 1
    budget_s: float = 0.0
    """Seconds of trials that may be spent; 0: no limit."""
    noise_blocks: int = 4
    rounds: int = 2
    """How often the search goes back to propose after it kept something."""
    screen_rounds: int = 2
    screen_window_s: float = 0.0
    """Window of a screening trial; 0: half of the load's window."""
    confirm_most: int = 4
    """How many levers at most go into paired blocks after screening."""
    looks: tuple[int, ...] = (4, 6, 8, 10, 12)
    alpha: float = 0.010
    proof_blocks: int = 6
    refine_trials: int = 6
    quality_items: int = 0
    """Items per task in the gate; 0: as the planner says."""
    full_final_gate: bool = True
    """Ask the final recipe on fresh items, as strongly as a lever that changes numerics, whatever its levers are."""
    allow_lossy: str = ""
    """Names of lossy levers that may be tried, with commas between."""
    shortened: str = ""
    """What was left out or cut to save time, for the reader; the run states it first."""
    minimum_gain: float = 0.01

    def rules(self) -> Rules:
        """The sequential rules that these settings stand for."""
        return Rules(looks=self.looks, alpha=self.alpha, minimum_gain=self.minimum_gain)

    def reseeded(self, seed: int) -> "Settings":
        """The same settings with other randomness: fresh prompts, fresh orders."""
        return msgspec.structs.replace(self, seed=seed)

    def as_values(self) -> dict[str, float | int | str | bool]:
        """Flat values for the journal."""
        values = msgspec.to_builtins(self)
        values["looks"] = ",".join(str(look) for look in self.looks)
        return values


def settings_from(values: dict[str, float | int | str | bool]) -> Settings:
    """The settings a journal was opened with; the inverse of `as_values`."""
    looks = tuple(int(look) for look in str(values["looks"]).split(","))
    return msgspec.convert({**values, "looks": looks}, Settings, strict=False)
