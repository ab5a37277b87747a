"""Digests of files: what ties a recorded number to the bytes that it came from."""

import hashlib
from pathlib import Path

from servesmith.errors import EvidenceError


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex. Raises EvidenceError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EvidenceError(
            str(path), f"cannot be read: {error.strerror}.", "Was the run's folder moved or cut?"
        ) from error


def folder_digests(folder: Path) -> dict[str, str]:
    """Path relative to the folder (with /) to SHA-256, for every regular file in it and below, sorted.

    Symbolic links are left out: what they point to is not part of the folder. Raises EvidenceError if there is no
    such folder.
    """
    if not folder.is_dir():
        raise EvidenceError(str(folder), "is not a folder.", "Was the run's folder moved or cut?")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}
