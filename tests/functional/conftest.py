"""A folder with recipes in it, and the command line to use them."""

import pytest
from shell import LEVERS, SIM, VIRTUAL, Shell


@pytest.fixture
def servesmith(tmp_path) -> Shell:
    shell = Shell(tmp_path)
    shell.write("virtual.yaml", VIRTUAL)
    shell.write("sim.yaml", SIM)
    shell.write("levers.yaml", LEVERS)
    return shell
