"""Who measures on this machine: two measurements at once disturb each other, and neither would know.

A lock on one file of the machine, held until its process ends, however it ends. It refuses nobody: whoever comes second
is told of the first, and its run records it.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path

PLACE = Path(tempfile.gettempdir()) / "servesmith.measuring"


def claim(at: str, place: Path = PLACE) -> str:
    """Lay claim to this machine from now on. `at`: the wall clock, for people.

    Empty, or a sentence about the other process that measures here. A machine on which there can be no such file is
    measured on without.
    """
    try:
        descriptor = _open(place)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        told = os.pread(descriptor, 200, 0).decode(errors="replace").split()
        os.close(descriptor)
        return _sentence(told)
    with suppress(OSError):  # of another user: the lock is held all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {at}\n".encode(), 0)
    return ""  # the descriptor stays open, and with it the lock, until the process ends


def _open(place: Path) -> int:
    """For every user of the machine; a lock needs no right to write."""
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        return os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
    with suppress(OSError):
        os.fchmod(descriptor, 0o666)  # whatever the umask took
    return descriptor


def _sentence(told: list[str]) -> str:
    if told[:1] == [str(os.getpid())]:
        return ""
    since = f" since {told[1]}, pid {told[0]}" if len(told) == 2 else ""
    return (
        f"Another servesmith measures on this machine{since}. The two disturb each other, so neither has the numbers of"
        " a quiet machine: measure one after the other."
    )
