"""Ports of this machine: a free one, and who sits on one."""

import random
import socket

import psutil

from servesmith.errors import MachineError

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 32_000
"""Below the range from which Linux gives ports to outgoing connections, so none of those can take it meanwhile."""


def find_free_port(picker: random.Random | None = None) -> int:
    """A port of loopback that nothing holds. Picked at random, so that two runs seldom want the same one."""
    picker = picker or random.SystemRandom()
    for _ in range(200):
        port = picker.randrange(LOWEST, HIGHEST)
        if not is_taken(port):
            return port
    raise MachineError(f"No free port between {LOWEST} and {HIGHEST} found in 200 tries.", "End what holds them.")


def is_taken(port: int) -> bool:
    """True if something answers on the port of loopback or has it bound."""
    return _answers(port) or not _can_be_bound(port)


def _answers(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(0.5)
        if client.connect_ex((LOOPBACK, port)) != 0:
            return False
        return client.getsockname() != client.getpeername()  # equal: TCP connected to itself, nobody is there


def _can_be_bound(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger are no obstacle
        try:
            server.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def refuse_taken(port: int) -> None:
    """Raise MachineError that names who holds the port: a server that is already there is never measured."""
    if not is_taken(port):
        return
    raise MachineError(
        f"Port {port} is already taken by {describe(listeners(port))}; it would be measured instead of the recipe.",
        "End that process, or choose another port.",
    )


UNSEEN = 0
"""Stands for a process that this user may not see."""


def listeners(port: int) -> set[int]:
    """Processes that listen on the TCP port, on any address; empty if nobody does."""
    return {
        connection.pid or UNSEEN
        for connection in psutil.net_connections(kind="tcp")
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN
    }


def describe(pids: set[int]) -> str:
    """The processes by name and pid, for people."""
    return ", ".join(_name(pid) for pid in sorted(pids or {UNSEEN}))


def _name(pid: int) -> str:
    if pid == UNSEEN:
        return "a process that this user may not see"
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.NoSuchProcess:
        return f"pid {pid}"
