import http.server
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from servesmith.engine import launch, ports, ready
from servesmith.engine.base import Command
from servesmith.engine.launch import StartFailed, StartLimits
from servesmith.errors import MachineError

QUICK = StartLimits(ready_s=1.0, first_token_s=0.5, grace_s=1.0)


def python(code: str) -> Command:
    return Command((sys.executable, "-c", code))


def refused(command: Command, port: int, log, limits: StartLimits = QUICK):
    """The failure of a start that must fail."""
    with pytest.raises(StartFailed) as caught, launch.serve(command, port=port, log_path=log, limits=limits):
        pytest.fail("it came up")
    return caught.value.failure


@contextmanager
def stranger(port: int):
    """A server of our own process that answers 200 to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_that_serves(start_sim, port, log):
    before = time.monotonic_ns()
    with start_sim(ttft_ms=30.0) as server:
        assert server.url == f"http://127.0.0.1:{port}"
        assert before <= server.started < time.monotonic_ns()
        assert 0.03 <= server.ready_seconds < 20
        assert server.poll() is None
        assert psutil.Process(server.pid).cmdline()[3] == "servesmith.engine.simserver"
        assert httpx2.get(f"{server.url}/health", trust_env=False).status_code == 200
    assert not psutil.pid_exists(server.pid)
    assert not ports.is_taken(port)
    assert server.poll() == 0
    assert f"listening on {server.url}" in log.read_text()


def test_both_streams_are_kept_whole(port, log):
    refused(python("import sys; print('out' * 5000); sys.stderr.write('err'); sys.exit(3)"), port, log)
    assert log.read_text() in ("out" * 5000 + "\nerr", "err" + "out" * 5000 + "\n")


def test_the_environment_is_added_to(port, log, monkeypatch):
    monkeypatch.setenv("FROM_OUTSIDE", "1")
    command = Command(
        (sys.executable, "-c", "import os; print(os.environ['FROM_OUTSIDE'], os.environ['X'])"), {"X": "2"}
    )
    refused(command, port, log)
    assert log.read_text() == "1 2\n"


def test_no_shell_reads_the_command(port, log):
    refused(Command(("echo", "$HOME", ";", "true")), port, log)
    assert log.read_text() == "$HOME ; true\n"


@pytest.mark.parametrize(
    ("code", "kind", "line"),
    [
        ("raise SystemExit('error: unknown flag --x')", "bad-flag", "error: unknown flag --x"),
        ("open('/nope')", "missing-file", "FileNotFoundError: [Errno 2] No such file or directory: '/nope'"),
        ("import os; os.abort()", "crash", "the log is empty; ended by signal 6"),
        ("import time; print('loading', flush=True); time.sleep(100)", "timeout", "loading"),
    ],
)
def test_failed_starts_are_data(code, kind, line, port, log):
    failure = refused(python(code), port, log)
    assert (failure.kind, failure.log_line) == (kind, line)


def test_a_program_that_is_not_there(port, log):
    failure = refused(Command(("/nope/engine",)), port, log)
    assert failure.kind == "missing-file"
    assert "/nope/engine" in failure.log_line


@pytest.mark.parametrize(
    ("flag", "kind", "line"),
    [
        ("oom_at_start", "out-of-memory", "CUDA out of memory"),
        ("crash_at_start", "crash", "planted crash"),
        ("hang_from_start", "hang", "no token within 0.5 s"),
    ],
)
def test_planted_faults(flag, kind, line, start_sim):
    limits = StartLimits(ready_s=20, first_token_s=0.5, grace_s=1)
    with pytest.raises(StartFailed) as caught, start_sim(limits, **{flag: True}):
        pytest.fail("it came up")
    assert caught.value.failure.kind == kind
    assert line in caught.value.failure.log_line


def test_a_hang_is_seen_through_pings(start_sim):
    limits = StartLimits(ready_s=20, first_token_s=0.3, grace_s=1)
    with pytest.raises(StartFailed) as caught, start_sim(limits, ttft_ms=60_000.0, ping=True):
        pytest.fail("it came up")
    assert caught.value.failure.kind == "hang"


def test_a_crash_at_the_first_token(start_sim):
    with pytest.raises(StartFailed) as caught, start_sim(crash_after=0):
        pytest.fail("it came up")
    assert caught.value.failure.kind == "crash"
    assert "planted crash" in caught.value.failure.log_line


def test_a_crash_after_the_start_is_seen(start_sim):
    with start_sim(crash_after=1) as server:
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{server.url}/v1/completions", json={"prompt": "x"}, trust_env=False)
        deadline = time.monotonic() + 5
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.poll() == -signal.SIGSEGV


def test_a_refused_first_request_is_not_a_hang(start_sim):
    with pytest.raises(StartFailed) as caught, start_sim(error_rate=1.0):
        pytest.fail("it came up")
    assert caught.value.failure.kind == "requests-failed"
    assert "planted error" in caught.value.failure.log_line


def test_it_waits_while_the_server_says_503(start_sim):
    with start_sim(slow_start=0.6) as server:
        assert server.ready_seconds > 0.6


def test_a_server_on_the_port_is_never_measured(port, log):
    with stranger(port):
        with pytest.raises(MachineError) as caught, launch.serve(python(""), port=port, log_path=log):
            pytest.fail("it came up")
        assert str(port) in str(caught.value)
        assert f"(pid {psutil.Process().pid})" in str(caught.value)
    assert not log.exists()


def test_a_port_that_is_bound_but_silent_is_refused(port, log):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", port))
        with pytest.raises(MachineError), launch.serve(python(""), port=port, log_path=log):
            pytest.fail("it came up")


def test_a_stranger_that_takes_the_port_during_the_start_is_the_wrong_server(port, log):
    marker = log.with_name("started")
    command = python(f"import time; open({str(marker)!r}, 'w').close(); time.sleep(100)")
    caught: list[StartFailed] = []

    def start() -> None:
        try:
            with launch.serve(command, port=port, log_path=log, limits=StartLimits(ready_s=10, grace_s=1)):
                pass
        except StartFailed as failed:
            caught.append(failed)

    thread = threading.Thread(target=start)
    thread.start()
    while not marker.exists():
        time.sleep(0.01)
    with stranger(port):
        thread.join()
    assert caught[0].failure.kind == "wrong-server"
    assert f"pid {psutil.Process().pid}" in caught[0].failure.log_line


def test_an_error_in_the_block_ends_the_engine(start_sim):
    with pytest.raises(KeyboardInterrupt), start_sim() as server:
        raise KeyboardInterrupt
    assert not psutil.pid_exists(server.pid)


def test_the_engine_goes_even_if_the_guard_was_killed(start_sim):
    with start_sim() as server:
        engine = psutil.Process(server.pid)
        engine.parent().kill()
        deadline = time.monotonic() + 5
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.poll() == -signal.SIGKILL
        gone, _ = psutil.wait_procs([engine], timeout=5)
    assert gone or engine.status() == psutil.STATUS_ZOMBIE


def test_free_ports_are_free_and_outside_the_range_of_outgoing_connections():
    found = launch.find_free_port()
    assert ports.LOWEST <= found < ports.HIGHEST
    assert not ports.is_taken(found)


@pytest.mark.parametrize(
    ("event", "carries"),
    [
        ('{"choices": [{"text": "a"}]}', True),
        ('{"choices": [{"text": "", "finish_reason": null}]}', False),
        ('{"choices": [{"text": "", "finish_reason": "length"}]}', True),
        ('{"choices": [{"delta": {"role": "assistant", "content": null}}]}', False),
        ('{"choices": [{"delta": {"role": "assistant", "content": ""}}]}', False),
        ('{"choices": [{"delta": {"content": "a"}}]}', True),
        ('{"choices": [{"delta": {"reasoning_content": "a"}}]}', True),
        ('{"choices": [{"delta": {"tool_calls": [{}]}}]}', True),
        ('{"choices": [], "usage": {}}', False),
        ("[DONE]", False),
        ("[]", False),
    ],
)
def test_what_counts_as_a_token(event, carries):
    assert ready.carries_token(event) is carries
