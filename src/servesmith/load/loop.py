"""The event loop: uvloop where it is installed, asyncio's own elsewhere. The one door to uvloop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on a fresh loop; Ctrl-C cancels it and is raised here once it has cleaned up."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """A fresh loop of the fastest kind there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
