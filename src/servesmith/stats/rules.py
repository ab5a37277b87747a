"""The rules of a sequential comparison, fixed before the first block runs."""

import msgspec

MINIMUM_BLOCKS = 4
"""With fewer blocks nothing is ever decided."""

_SIMULATED_ALPHA = 0.010
_SIMULATED_LOOKS = 5
_SIMULATED_SPAN = 3.0
_SIMULATED_FUTILITY = 0.90
_SIMULATED_CONFIDENCE = 0.95


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When to look and what it takes. Raises ValueError on rules that make no sense."""

    looks: tuple[int, ...] = (4, 6, 8, 10, 12)
    """Numbers of blocks at which a decision may fall, rising, the first at least MINIMUM_BLOCKS."""
    alpha: float = 0.010
    """One-sided, at each look and in each direction."""
    futility_confidence: float = 0.90
    """One-sided confidence with which a gain of `minimum_gain` must be ruled out for `same`."""
    minimum_gain: float = 0.01
    """The practical minimum: a smaller gain is not worth having. 0.01 is 1 %."""

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < MINIMUM_BLOCKS or list(self.looks) != sorted(set(self.looks)):
            raise ValueError(f"looks must rise from at least {MINIMUM_BLOCKS} blocks, not {self.looks}")
        if not (0 < self.alpha < 0.5 and 0.5 <= self.futility_confidence < 1 and 0 <= self.minimum_gain < 1):
            raise ValueError("need 0 < alpha < 0.5, 0.5 <= futility_confidence < 1, 0 <= minimum_gain < 1")

    @property
    def confidence(self) -> float:
        """Coverage of the interval at the look where these rules stop, whatever the true effect and the noise.

        0.95 inside the box that was simulated (worst case 0.958, docs/statistics.md); outside it Bonferroni's bound.
        """
        simulated = (
            self.alpha <= _SIMULATED_ALPHA
            and len(self.looks) <= _SIMULATED_LOOKS
            and self.looks[-1] <= _SIMULATED_SPAN * self.looks[0]
            and self.futility_confidence <= _SIMULATED_FUTILITY
        )
        bonferroni = round(max(0.0, 1.0 - 2.0 * self.alpha * len(self.looks)), 9)
        return max(bonferroni, _SIMULATED_CONFIDENCE) if simulated else bonferroni

    @property
    def last(self) -> int:
        """Most blocks that these rules ever ask for."""
        return self.looks[-1]
