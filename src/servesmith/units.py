"""Units as types: one unit inside (nanoseconds, seconds), formatting only at the rim."""

from typing import TypeAlias

Nanos: TypeAlias = int
"""Nanoseconds of CLOCK_MONOTONIC unless said otherwise."""
Seconds: TypeAlias = float
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_MS = 1_000_000
