"""The guard: a small process that stands between servesmith and an engine, so that nothing is ever left behind.

    python -I -S guard.py GRACE_S PROGRAM [ARGUMENT ...]

It imports the standard library only and starts in some tens of milliseconds. It makes itself the subreaper of all
its descendants and starts the program in a session of its own. It ends the whole tree (SIGTERM, GRACE_S seconds,
SIGKILL; also descendants that made their own sessions) and then itself as soon as one of these happens:

- end of file on standard input: servesmith is gone, however it went (kill -9 included) or let go;
- SIGTERM;
- the program ended by itself.

If the guard itself is killed, the kernel kills the program (PR_SET_PDEATHSIG).

Standard output carries two lines to servesmith, `pid N` and `exit CODE` (minus the number of a signal).
Standard error is the engine's log: it is both streams of the program.
"""

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.02


def main(argv: list[str]) -> int:
    """Guard one program until the tree is gone. Returns 0; 127 if the program could not be started."""
    grace = float(argv[0])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    alarm = _wake_on_signals()
    child = _start(argv[1:], libc)
    _tell(f"pid {child}")
    _wait_for_a_reason_to_end(child, alarm)
    _end_tree(child, grace)
    return 0


def _wake_on_signals() -> int:
    """File descriptor that becomes readable on SIGTERM or SIGCHLD: the byte is the number of the signal."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, _noted)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    return read


def _noted(_number: int, _frame: object) -> None:
    """The wakeup descriptor has it already."""


def _start(argv: list[str], libc: ctypes.CDLL) -> int:
    """Fork and exec the program in a new session. Returns its pid."""
    guard = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:  # it died before the line above took hold
            os._exit(127)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"error: cannot start {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _wait_for_a_reason_to_end(child: int, alarm: int) -> None:
    """Return when the program has ended, servesmith has gone, or SIGTERM has come."""
    while True:
        ready, _, _ = select.select([0, alarm], [], [])
        if 0 in ready and not os.read(0, 64):
            return
        if alarm in ready and signal.SIGTERM in os.read(alarm, 512):
            return
        if child in _reap(child):
            return


def _reap(child: int) -> set[int]:
    """Collect all that ended, orphans of the tree included. Tells servesmith if the program is among them."""
    ended: set[int] = set()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.add(pid)
        if pid == child:
            _tell(f"exit {os.waitstatus_to_exitcode(status)}")


def _end_tree(child: int, grace: float) -> None:
    """SIGTERM to every descendant, SIGKILL after `grace` seconds; returns when none is left."""
    deadline = time.monotonic() + grace
    told: set[int] = set()
    while tree := _descendants():
        if time.monotonic() < deadline:
            _signal(tree - told, signal.SIGTERM)
            told |= tree
        else:
            _signal(tree, signal.SIGKILL)
        time.sleep(POLL_S)
        _reap(child)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _descendants() -> set[int]:
    """Every process under this one. Orphans below us are our children, since we are their subreaper."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (pathlib would double the start time of the guard)
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    queue = [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found.update(below)
        queue.extend(below)
    return found


def _tell(line: str) -> None:
    try:
        os.write(1, f"{line}\n".encode())
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
