"""Every command that the docs show is run, in order, page by page. Windows are shortened; nothing else is."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHORT = (
    "--set", "load.warmup_s=0.5", "--set", "load.window_s=1", "--set", "load.streams=4", "--set",
    "workload.output_tokens=16",
)  # fmt: skip
SHORTENED = ("bench", "compare", "tune", "gate", "knee", "prefill", "start", "soak")


def console_commands(page: Path) -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line) for line in lines]


def test_the_docs_show_commands():
    assert sum(len(console_commands(page)) for page in PAGES) >= 10


def test_shell_blocks_name_only_make_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if line.startswith("make "):
                    assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE), line


@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if console_commands(page)], ids=lambda page: page.name)
def test_shown_commands_run(servesmith, page):
    for words in console_commands(page):
        assert words[0] == "servesmith", words
        short = SHORT if words[1] in SHORTENED and "--resume" not in words else ()
        if words[1] == "tune" and "--only" not in words:
            short = (*short, "--only", "threads-1", "--refine", "0")
        if words[1] == "tune":
            short = (*short, "--proof-blocks", "4", "--budget", "20s")
        if words[1] == "doctor":
            assert servesmith(*words[1:]).code in (0, 1)
            continue
        said = servesmith(*words[1:], *short)
        assert said.code == 0, f"{shlex.join(words)}\n{said.out}\n{said.err}"


def test_every_link_between_pages_leads_somewhere():
    for page in [*PAGES, *sorted((ROOT / "docs" / "reference").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
