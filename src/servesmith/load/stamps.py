"""When bytes arrived, by the kernel where it says so: its stamp does not wait for a busy client to wake up.

Linux: SO_TIMESTAMPNS (socket(7)) gives, with each recvmsg, the time at which the newest segment of what was read came
in, in CLOCK_REALTIME. Everything here is told in the monotonic clock, so the difference of the two is kept fresh (NTP
slews the former).
"""

import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from servesmith.units import Nanos

Clock = Callable[[], Nanos]

_SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; the same on x86-64, arm64, ppc64 and s390x."""
TIMESPEC = struct.Struct("=qq")
ANCILLARY_BYTES = socket.CMSG_SPACE(TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_SAMPLES = 20
CAN_STAMP = sys.platform == "linux" and struct.calcsize("P") == 8


def ask_for_stamps(sock: socket.socket) -> bool:
    """Have the kernel stamp what arrives on a socket; False where it cannot."""
    if not CAN_STAMP:
        return False
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        return True
    return False


class StampReader:
    """What turns the kernel's receive times into the monotonic clock: subtract `offset`."""

    def __init__(self, *, kernel: bool = True) -> None:
        """`kernel` False: do without them."""
        self.wanted = kernel
        self.offset: Nanos = 0
        """CLOCK_REALTIME - CLOCK_MONOTONIC."""
        self.sync()

    def sync(self) -> None:
        """Measure CLOCK_REALTIME - CLOCK_MONOTONIC anew; the tightest of a few readings counts."""
        best = -1
        for _ in range(_SAMPLES):
            before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            if best < 0 or after - before < best:
                best, self.offset = after - before, real - (before + after) // 2
