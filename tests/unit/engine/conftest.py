import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from servesmith.engine import launch
from servesmith.engine.launch import Server, StartLimits
from servesmith.engine.sim import Sim
from servesmith.recipe.model import FlagValue, Recipe

LIMITS = StartLimits(ready_s=20, first_token_s=20, grace_s=2)
StartSim = Callable[..., AbstractContextManager[Server]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def port() -> int:
    return launch.find_free_port()


@pytest.fixture
def start_sim(log: Path, port: int) -> StartSim:
    def start(limits: StartLimits = LIMITS, **flags: FlagValue) -> AbstractContextManager[Server]:
        recipe = Recipe(
            name="sim", engine="sim", flags={name.replace("_", "-"): value for name, value in flags.items()}
        )
        adapter = Sim()
        return launch.serve(
            adapter.command(recipe, port), port=port, log_path=log, limits=limits, classify=adapter.failure
        )

    return start


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Every test of this room ends without a descendant of its own left running."""
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    yield
    left = [child for child in psutil.Process(os.getpid()).children(recursive=True) if child.pid not in before]
    assert not left
