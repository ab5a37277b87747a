"""The generated parts of docs/ are what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_docs_are_current():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + "run `make docs`"
