"""Why a start died: the class of the failure and the line of the log that shows it."""

import re
from collections.abc import Iterable

from servesmith.engine.base import Failure
from servesmith.store.events import FailureClass

LINE_LIMIT = 500
"""Characters kept of a log line."""

_WORDS: tuple[tuple[FailureClass, str], ...] = (
    (
        "out-of-memory",
        r"out of memory|OutOfMemory|insufficient memory|cannot allocate memory|std::bad_alloc|\bMemoryError\b"
        r"|(?:cuda|hip)Malloc failed|failed to allocate \w*\s*buffer|no available memory for the cache",
    ),
    ("port", r"address already in use|EADDRINUSE|couldn't bind|failed to bind|cannot bind"),
    (
        "bad-flag",
        r"error: (?:unknown|invalid|refused) (?:flag|argument|value|option)|unrecognized arguments|error: argument "
        r"|no such option|error while handling argument|requires flash_attn",
    ),
    (
        "missing-file",
        r"no such file or directory|FileNotFoundError|ModuleNotFoundError|is not a local folder|\bdoes not exist\b"
        r"|cannot start \S+:|invalid magic characters",
    ),
)
PATTERNS: tuple[tuple[FailureClass, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(words, re.IGNORECASE)) for kind, words in _WORDS
)
"""Most telling class first: a start that ran out of memory also says that it failed to load its model."""

_COMPLAINT = re.compile(r"\bE\b|error|exception|fatal|abort|assert|fail|panic|segmentation", re.IGNORECASE)


def classify(log: Iterable[str], exit_code: int | None) -> Failure:
    """Class and line of a death. `exit_code` None: it did not exit by itself, so without a better reason: `timeout`."""
    shown: dict[FailureClass, str] = {}
    complaint = last = ""
    for line in (text.strip() for text in log):
        last = line or last
        complaint = line if _COMPLAINT.search(line) else complaint
        for kind, pattern in PATTERNS:
            if kind not in shown and pattern.search(line):
                shown[kind] = line
    for kind, _ in PATTERNS:
        if kind in shown:
            return Failure(kind=kind, log_line=shown[kind][:LINE_LIMIT])
    if exit_code is None:
        return Failure(kind="timeout", log_line=(last or "the log is empty")[:LINE_LIMIT])
    return Failure(kind="crash", log_line=(complaint or last or _manner(exit_code))[:LINE_LIMIT])


def _manner(exit_code: int) -> str:
    return f"the log is empty; ended by signal {-exit_code}" if exit_code < 0 else f"the log is empty; exit {exit_code}"
