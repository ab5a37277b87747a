"""Errors become exit codes in one place."""

import errno

import pytest

from servesmith.cli import app


def fails_with(error):
    def verb(**_):
        raise error

    return verb


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_bug(monkeypatch, capsys, number):
    monkeypatch.setattr(app, "app", fails_with(OSError(number, "No space left on device", "runs/1/journal.jsonl")))
    assert app._run() == 3
    err = capsys.readouterr().err
    assert err.startswith("error: No space is left on the device for runs/1/journal.jsonl. Free some")
    assert "bug" not in err


def test_another_error_of_the_system_is_a_bug(monkeypatch, capsys):
    monkeypatch.setattr(app, "app", fails_with(OSError(errno.EBADF, "Bad file descriptor")))
    assert app._run() == app.BUG
    assert "bug" in capsys.readouterr().err
