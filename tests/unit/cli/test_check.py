"""`check` tells each mistake once."""

import pytest

from servesmith.cli.check import check


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("engine: llamacpp\nmodel: package:no_such_package_here/m.gguf\n", "pip install no_such_package_here"),
        ("engine: llamacpp\nmodel: nowhere.gguf\n", "fetch the model"),
        ("engine: sim\nflags: {slot: 8}\n", "`slots`"),
        ("engine: sim\ngoal: {metric: speed}\n", "There is no metric"),
    ],
)
def test_one_mistake_has_one_remedy(tmp_path, capsys, lines, said):
    file = tmp_path / "r.yaml"
    file.write_text(f"name: a\n{lines}")
    assert check(file) == 1
    (told,) = capsys.readouterr().out.splitlines()
    assert said in told
