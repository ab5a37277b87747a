"""Digests of files and folders."""

import hashlib

import pytest

from servesmith.errors import EvidenceError
from servesmith.store.hashing import file_digest, folder_digests


def test_digest_is_sha256_of_the_bytes(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc" * 100_000)
    assert file_digest(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_a_folder_lists_its_regular_files_and_no_links(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").write_bytes(b"b")
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to("/etc/hostname")
    digests = folder_digests(tmp_path)
    assert list(digests) == ["a", "sub/b"]
    assert digests["a"] == hashlib.sha256(b"a").hexdigest()


def test_one_changed_byte_changes_one_digest(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    before = folder_digests(tmp_path)
    (tmp_path / "b").write_bytes(b"sane")
    after = folder_digests(tmp_path)
    assert before["a"] == after["a"]
    assert before["b"] != after["b"]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(EvidenceError, match="gone: cannot be read"):
        file_digest(tmp_path / "gone")
    with pytest.raises(EvidenceError, match="gone: is not a folder"):
        folder_digests(tmp_path / "gone")
