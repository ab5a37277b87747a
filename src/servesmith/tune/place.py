"""Where levers are judged to apply: the platform, the engine's version, the cores, and the load."""

import os
from pathlib import Path

import msgspec

from servesmith.engine.base import Adapter
from servesmith.recipe import levers as library
from servesmith.recipe.model import Case, Lever, Load, Recipe


class Place(msgspec.Struct, frozen=True):
    """What a lever's conditions are held against."""

    load: Load
    platform: str
    version: str
    cores: int

    def refuses(self, lever: Lever, recipe: Recipe) -> str:
        """Why the lever cannot be tried here; empty if it can."""
        return library.applies(lever, recipe, self.load, self.platform, self.version, self.cores)


def place_of(case: Case, engine: Adapter) -> Place:
    """This machine, for this case. GPUs count only where the recipe names some."""
    platform = "cpu" if not case.recipe.gpus else "rocm" if Path("/dev/kfd").exists() else "cuda"
    return Place(case.load, platform, engine.version(), len(os.sched_getaffinity(0)))
