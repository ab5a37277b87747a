"""The command line as a user has it: a process, its output, its exit code."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "SERVESMITH_TEST"
"""Variable by which processes of one test are known."""

LEVERS = """\
levers:
  - name: slots-8
    why: Twice the slots, so fewer streams wait.
    risk: lossless
    set: {flags.slots: 8}
  - name: slower
    why: A longer step, which cannot pay.
    risk: lossless
    set: {flags.gap-ms: 16.0}
  - name: dies
    why: It ends at its start.
    risk: lossless
    set: {flags.crash-at-start: true}
"""

VIRTUAL = """\
name: virtual
engine: sim
executable: [virtual]
flags: {slots: 4, gap-ms: 10.0, ttft-ms: 50.0, slope: 0.05, noise-restart: 0.01, seed: 7}
workload: {prompt_tokens: 32, output_tokens: 20}
load: {streams: 8, warmup_s: 2, window_s: 6}
quality: {tasks: [marked], items: 120}
"""

SIM = """\
name: sim
engine: sim
flags: {slots: 4, gap-ms: 5.0, ttft-ms: 20.0, slope: 0.02, noise-restart: 0.005, seed: 7}
workload: {prompt_tokens: 32, output_tokens: 12}
load: {streams: 8, warmup_s: 0.2, window_s: 0.5}
quality: {tasks: [marked], items: 120}
"""


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


class Shell:
    """Runs `servesmith` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", MARK: str(folder)}

    def __call__(self, *words: object, timeout: float = 280) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "servesmith", *map(str, words)],
            cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *words: object) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "servesmith", *map(str, words)],
            cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start_module(self, module: str, *words: object) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-m", module, *map(str, words)], cwd=self.folder, env=self.env)

    def wait_for(self, port: int, limit: float = 10) -> None:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
                return
            time.sleep(0.05)
        raise TimeoutError(f"nothing listens on {port}")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def run_folder(self) -> Path:
        (folder,) = sorted(path for path in (self.folder / "runs").iterdir() if path.is_dir())
        return folder


TUNE = ("--levers", "levers.yaml", "--proof-blocks", "4", "--refine", "0", "--seed", "5")
