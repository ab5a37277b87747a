"""Third-party data that lies beside the project and is never copied into it: ../shared/data."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shared_data(name: str) -> Path:
    """A file or folder of it; skips the test where there is none."""
    path = ROOT.parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name} beside the project, which is not part of it")
    return path
