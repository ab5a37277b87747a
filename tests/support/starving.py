"""Keep the measuring processes of a servesmith from running, as a core that others keep busy does."""

import threading
import time
from contextlib import contextmanager, suppress

import psutil


def workers(parent: psutil.Process) -> list[psutil.Process]:
    found, children = [], []
    with suppress(psutil.Error):
        children = parent.children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            if "servesmith.load.worker" in child.cmdline():
                found.append(child)
    return found


@contextmanager
def starving(parent: psutil.Process, stopped_s: float = 0.15, running_s: float = 0.02):
    """Stop them most of the time until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            for action, rest in (("suspend", stopped_s), ("resume", running_s)):
                for process in workers(parent):
                    with suppress(psutil.Error):
                        getattr(process, action)()
                time.sleep(rest)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for process in workers(parent):
            with suppress(psutil.Error):
                process.resume()
