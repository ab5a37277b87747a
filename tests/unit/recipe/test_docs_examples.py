"""The YAML blocks of docs/workloads.md are cases that can be read."""

import re
from pathlib import Path

from servesmith.recipe.files import read_case
from servesmith.workload.plan import planned

PAGE = Path(__file__).parents[3] / "docs" / "workloads.md"


def blocks():
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_block_can_be_read(tmp_path):
    assert len(blocks()) >= 6
    for text in blocks():
        (tmp_path / "r.yaml").write_text(f"name: a\nengine: sim\n{text}")
        read_case(tmp_path / "r.yaml")


def test_the_lengths_of_the_sessions_are_those_that_the_page_says(tmp_path):
    (text,) = [text for text in blocks() if "sessions:" in text]
    (tmp_path / "r.yaml").write_text(f"name: a\nengine: sim\n{text}")
    case = read_case(tmp_path / "r.yaml")
    assert [plan.prompt_tokens for plan in planned(case.workload, 1, 4)] == [400, 560, 720, 880]
