"""What numbers are asked for beside those that records alone give: limits for goodput, GPUs, a price."""

import msgspec

from servesmith.recipe.model import Goal, Recipe, RequestLimit


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Kept with the raw files of a trial, since its numbers follow from it."""

    request_limits: dict[RequestLimit, float] = {}
    """The largest value allowed for a request, by name; empty: no goodput."""
    gpus: int = 0
    """GPUs that serve; 0: not known, so nothing is told per GPU."""
    price_per_hour: float = 0.0
    """Of everything that serves, in any currency; 0: not known."""


def terms_of(goal: Goal, recipe: Recipe) -> Terms:
    """The terms of a trial of this recipe: GPUs are its own where it names them."""
    return Terms(
        request_limits=dict(goal.request_limits),
        gpus=len(recipe.gpus) or goal.gpus,
        price_per_hour=goal.price_per_hour,
    )
