"""A handful of starts told as what it is: their median and their range."""

from collections.abc import Sequence

import msgspec

from servesmith.stats.sample import median


class Range(msgspec.Struct, frozen=True):
    """Median, smallest and largest of single starts."""

    starts: int
    low: float
    median: float
    high: float

    @property
    def confidence(self) -> float:
        """That [low, high] holds the median of all starts: it misses only if every start fell on one side of it, so
        1 - 2 / 2^n whatever the distribution (sign test)."""
        return 1.0 - 2.0 * 0.5**self.starts


def range_of(values: Sequence[float]) -> Range:
    """Of at least one value."""
    return Range(len(values), min(values), median(values), max(values))
