"""The one tree of errors, and what each means for the exit code.

ServesmithError            something a person can act on; `str(error)` says what, `remedy` says what to do
├── InputError       (2)   a recipe, flag or file is wrong; carries every problem found, not only the first
├── MachineError     (3)   this machine cannot do it: engine missing, port taken, disk full
├── EvidenceError    (4)   a file of a run does not say what it said when it was written
└── ClientTooSlow    (5)   the measuring client could not keep up, so no latency is reported

A failed request or a failed trial is data (a record, a journal event), never an exception.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with what the user gave, and what to do about it."""

    message: str
    remedy: str
    file: str = ""
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        """`file:line: field: message. remedy`, leaving out what is not known."""
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        field = f"{self.field}: " if self.field else ""
        return f"{place}{field}{self.message} {self.remedy}".strip()


class ServesmithError(Exception):
    """Root of all errors that are meant for a person."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.remedy = remedy


class InputError(ServesmithError):
    """What the user gave is wrong: every problem at once, each with its place and remedy."""

    exit_code = 2

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class MachineError(ServesmithError):
    """This machine cannot do what was asked."""

    exit_code = 3


class EvidenceError(ServesmithError):
    """A recorded file was changed, is missing or is broken; `file` names it."""

    exit_code = 4

    def __init__(self, file: str, message: str, remedy: str = "") -> None:
        super().__init__(f"{file}: {message}", remedy)
        self.file = file


class ClientTooSlow(ServesmithError):
    """The client fell behind the server, so its latencies would be its own and not the server's."""

    exit_code = 5
