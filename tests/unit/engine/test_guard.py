"""The guard against real processes: whatever dies, nothing of the tree is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from servesmith.engine import guard, launch
from servesmith.engine.ports import is_taken

# an engine with a worker in a session of its own that ignores SIGTERM; both note their pids
ENGINE = """
import os, signal, subprocess, sys, time
worker = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
open(sys.argv[1], 'a').write(f'{os.getpid()}\\\\n')
time.sleep(100)
'''
open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')
subprocess.Popen([sys.executable, '-c', worker, sys.argv[1]])
if sys.argv[2] == 'exit':
    while len(open(sys.argv[1]).readlines()) < 2: time.sleep(0.01)
    sys.exit(7)
time.sleep(100)
"""


@pytest.fixture
def start(tmp_path: Path):
    """Starts a guard over the engine and its worker; gives the process and the two pids."""
    started: list[subprocess.Popen[bytes]] = []

    def start(how: str = "stay", grace: str = "0.3") -> tuple[subprocess.Popen[bytes], list[int]]:
        notes = tmp_path / "pids"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, grace, sys.executable, "-c", ENGINE, str(notes), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        wait_for(lambda: notes.exists() and len(notes.read_text().split()) == 2)
        return process, [int(pid) for pid in notes.read_text().split()]

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


def wait_for(condition, limit: float = 10.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


def test_it_ends_the_tree_when_its_standard_input_closes(start):
    process, pids = start()
    assert not gone(pids)
    process.stdin.close()
    assert process.wait(10) == 0
    assert gone(pids)
    assert process.stdout.read() == f"pid {pids[0]}\nexit -15\n".encode()


def test_it_ends_the_tree_on_sigterm(start):
    process, pids = start()
    process.terminate()
    assert process.wait(10) == 0
    assert gone(pids)


def test_it_ends_what_the_engine_leaves_behind_and_tells_its_exit_code(start):
    process, pids = start("exit")
    assert process.wait(10) == 0
    assert gone(pids)
    assert process.stdout.read().endswith(b"exit 7\n")


def test_the_engine_dies_with_a_killed_guard(start):
    process, pids = start()
    process.kill()
    process.wait(10)
    wait_for(lambda: gone(pids[:1]))
    os.kill(pids[1], signal.SIGKILL)  # the worker: only a servesmith that lives can end it, see test_launch


def test_ctrl_c_of_the_terminal_is_not_for_the_guard(start):
    process, pids = start()
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    assert not gone(pids)


def test_a_program_that_is_not_there(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", "-S", guard.__file__, "1", "/nope"],
        stdin=subprocess.PIPE,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0


SERVESMITH = """
import sys, time
from pathlib import Path
from servesmith.engine import launch
from servesmith.engine.base import Command
port = int(sys.argv[1])
sim = Command((sys.executable, '-m', 'servesmith.engine.simserver', '--port', str(port)))
with launch.serve(sim, port=port, log_path=Path(sys.argv[2])) as server:
    sys.stdout.write(f'{server.pid}\\n')
    sys.stdout.flush()
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_and_no_port_is_left_when_servesmith_dies(number, tmp_path):
    port = launch.find_free_port()
    servesmith = subprocess.Popen(
        [sys.executable, "-c", SERVESMITH, str(port), str(tmp_path / "engine.log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    engine = int(servesmith.stdout.readline())
    tree = [child.pid for child in psutil.Process(servesmith.pid).children(recursive=True)]
    assert engine in tree
    assert len(tree) == 2  # guard and engine
    assert is_taken(port)
    servesmith.send_signal(number)
    servesmith.wait(10)
    servesmith.stdout.close()
    wait_for(lambda: gone(tree))
    assert not is_taken(port)
