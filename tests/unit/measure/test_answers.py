import pytest
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import EvidenceError
from servesmith.measure.answers import Answer, Sheet, read_sheet, read_sheets, write_sheets


def sheet(task="copy", answers=3, text="a"):
    return Sheet(
        task=task,
        chance=0.0,
        licence="Apache-2.0",
        seed=7,
        answers=tuple(
            Answer(item=item, prompt="ab", expected="a", answer=text, right=text == "a", finish="stop")
            for item in range(answers)
        ),
    )


def test_written_sheets_are_read_back(tmp_path):
    sheets = (sheet("arithmetic"), sheet("copy", text="b"))
    paths = write_sheets(tmp_path / "quality", sheets)
    assert [path.name for path in paths] == ["arithmetic.jsonl", "copy.jsonl"]
    assert read_sheets(tmp_path / "quality") == sheets


@given(text=st.text())
def test_any_text_survives(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("quality")
    write_sheets(folder, [sheet(text=text)])
    assert read_sheets(folder) == (sheet(text=text),)


def test_a_broken_line_is_named(tmp_path):
    (path,) = write_sheets(tmp_path, [sheet()])
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2].replace(b"true", b'"yes"')
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(EvidenceError, match=r"copy\.jsonl:3: is not what was written"):
        read_sheet(path)


def test_a_cut_file_is_named(tmp_path):
    (path,) = write_sheets(tmp_path, [sheet()])
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]))
    with pytest.raises(EvidenceError, match=r"answers to items 0 to 2; 2 are here"):
        read_sheet(path)


def test_a_right_answer_from_a_failed_request_is_refused(tmp_path):
    (path,) = write_sheets(tmp_path, [sheet()])
    path.write_bytes(path.read_bytes().replace(b'"error":""', b'"error":"cut"', 1))
    with pytest.raises(EvidenceError, match="item 0 cannot be right"):
        read_sheet(path)


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\xfe\n"])
def test_no_header_is_named(tmp_path, content):
    path = tmp_path / "copy.jsonl"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=r"copy\.jsonl"):
        read_sheet(path)


def test_missing_file_and_empty_folder_are_named(tmp_path):
    with pytest.raises(EvidenceError, match=r"gone\.jsonl"):
        read_sheet(tmp_path / "gone.jsonl")
    with pytest.raises(EvidenceError, match="no answers here"):
        read_sheets(tmp_path)
