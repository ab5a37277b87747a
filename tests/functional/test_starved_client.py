"""`bench` with a client that is kept from running: an exit code of its own, and no latency anywhere."""

import psutil
import pytest
from starving import starving

PORT = 20_418


@pytest.mark.alone
def test_a_starved_client_ends_with_its_own_exit_code(servesmith):
    options = ("--port", PORT, "--ttft-ms", 50, "--gap-ms", 10, "--slots", 8)
    server = servesmith.start_module("servesmith.engine.simserver", *options)
    try:
        servesmith.wait_for(PORT)
        process = servesmith.start(
            "bench", f"http://127.0.0.1:{PORT}", "--set", "load.warmup_s=0.5", "--set", "load.window_s=1.5",
            "--set", "workload.output_tokens=20", "--set", "workload.prompt_tokens=40",
        )  # fmt: skip
        with starving(psutil.Process(process.pid)):
            assert process.wait(timeout=120) == 5
    finally:
        server.kill()
        server.wait()
    summary = servesmith("report", servesmith.run_folder(), "--json").document
    assert "client-too-slow" in str(summary["trials"])
    assert "ttft" not in str(summary["trials"])
