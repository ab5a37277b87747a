"""Shared by all unit tests. Its being here also puts this folder's helpers on the path (`import rundata`)."""

import shutil
from pathlib import Path

import pytest
import rundata

from servesmith.report.page import write_report


@pytest.fixture(scope="session")
def tuned(tmp_path_factory) -> Path:
    """A finished tune with one kept lever and its report. Read only: other tests use it too."""
    folder = tmp_path_factory.mktemp("runs") / "20261201-120000-smollm2"
    rundata.tuned_run(folder)
    write_report(folder)
    return folder


@pytest.fixture
def tuned_copy(tuned, tmp_path) -> Path:
    """A copy of it that a test may break."""
    folder = tmp_path / tuned.name
    shutil.copytree(tuned, folder)
    return folder
