"""`verify` passes on what was written, and names the file when one byte of it is changed."""

import re
import shutil

import pytest
from shell import LEVERS, TUNE, VIRTUAL, Shell


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("verify"))
    shell.write("virtual.yaml", VIRTUAL)
    shell.write("levers.yaml", LEVERS)
    said = shell("tune", "virtual.yaml", *TUNE)
    assert said.code == 0, said.err
    return shell


@pytest.fixture
def copy(finished, tmp_path):
    folder = tmp_path / finished.run_folder().name
    shutil.copytree(finished.run_folder(), folder)
    return folder


def flip(path, place=0.5):
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    path.write_bytes(bytes(data))


def test_passes_untouched(finished, copy):
    said = finished("verify", copy)
    assert said.code == 0, said.err


def test_a_byte_of_a_record(finished, copy):
    victim = min(copy.glob("trials/prove--*/requests.parquet"))
    flip(victim)
    said = finished("verify", copy)
    assert said.code == 4
    assert f"{victim.parent.name}/requests.parquet" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("name", ["engine.log", "outcome.json", "recipe.yaml", "facts.json", "command.txt"])
def test_a_byte_of_any_other_file_of_a_trial(finished, copy, name):
    victim = min(copy.glob(f"trials/prove--*/{name}"))
    flip(victim)
    said = finished("verify", copy)
    assert said.code == 4
    assert name in said.err


def test_a_number_of_the_page(finished, copy):
    page = copy / "report.html"
    text = page.read_text()
    found = re.search(r"\d\.\d", text[len(text) // 2 :])
    assert found
    at = len(text) // 2 + found.start()
    page.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
    said = finished("verify", copy)
    assert said.code == 4
    assert "report.html" in said.err


def test_a_number_of_the_summary(finished, copy):
    summary = copy / "summary.json"
    text = summary.read_text()
    summary.write_text(
        re.sub(r'"ratio":\s*1\.(\d)', lambda m: m.group(0)[:-1] + str((int(m.group(1)) + 1) % 10), text, count=1)
    )
    assert summary.read_text() != text
    said = finished("verify", copy)
    assert said.code == 4
    assert "summary.json" in said.err


def test_a_byte_of_the_journal(finished, copy):
    flip(copy / "journal.jsonl")
    said = finished("verify", copy)
    assert said.code == 4
    assert "journal.jsonl" in said.err


def test_answers_of_the_gate(finished, copy):
    victim = min(copy.glob("trials/gate--*/quality/*.jsonl"))
    text = victim.read_text()
    victim.write_text(text.replace('"right":true', '"right":false', 1))
    said = finished("verify", copy)
    assert said.code == 4
    assert victim.name in said.err


def test_a_missing_trial(finished, copy):
    shutil.rmtree(min(copy.glob("trials/prove--*")))
    said = finished("verify", copy)
    assert said.code == 4
    assert "prove--" in said.err


def test_no_run_at_all(finished, tmp_path):
    said = finished("verify", tmp_path / "nothing")
    assert said.code in (2, 4)
    assert "nothing" in said.err
    assert "Traceback" not in said.err


def test_something_behind_the_end(finished, copy):
    with (copy / "journal.jsonl").open("ab") as journal:
        journal.write(b'garbage{"not":"a record"}')
    said = finished("verify", copy)
    assert said.code == 4
    assert "journal.jsonl" in said.err
