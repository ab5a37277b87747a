"""The journal: one line an event, appended and synced, each line chained to all before it by a checksum.

A line is `{"seq":3,"check":"<32 hex digits>","event":{...}}`. `check` is the BLAKE2b (16 bytes) of the check before it
(as bytes, empty for the first line) and of the event's bytes as written. So a changed, lost or moved line shows, and
the place where it shows is known. Only the very last line may be broken: that is what a crash leaves.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from servesmith.errors import EvidenceError, InputError, MachineError, Problem
from servesmith.store.events import SCHEMA, Event, RunOpened

JOURNAL = "journal.jsonl"
"""Name of the journal in a run's folder."""

_CHECK_BYTES = 16
_RECORD = b'{"seq":'
_ANY_RECORD = re.compile(rb'\{"seq":\d+,"check":"')
_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02
_RESTORE = "Restore the file from a copy; nothing after this place can be trusted."

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


class _Tail(msgspec.Struct, frozen=True):
    """Where the next line goes: after so many lines and bytes, chained to this check."""

    lines: int = 0
    size: int = 0
    check: bytes = b""


class _Schema(msgspec.Struct, frozen=True):
    """The one field that must be readable in any version's first event."""

    schema: int = 0


class _Reading(msgspec.Struct, frozen=True):
    """What a journal file holds."""

    events: list[Event]
    tail: _Tail
    torn: bytes
    """The broken last line, if there is one. It is no event."""


class Journal:
    """A journal open for writing. It holds an exclusive lock until it is closed or the process ends."""

    def __init__(self, folder: Path, descriptor: int, reading: _Reading, sync: Callable[[int], None]) -> None:
        self.folder = folder
        self.path = folder / JOURNAL
        self.note = ""
        """What was mended on opening, for people; empty if nothing."""
        self._descriptor = descriptor
        self._events = reading.events
        self._tail = reading.tail
        self._sync = sync
        self._stuck = False

    @classmethod
    def create(cls, folder: Path, *, sync: Callable[[int], None] = os.fsync) -> Self:
        """A new, empty journal. Makes the folder if need be.

        Raises InputError if there is a journal already, MachineError if it cannot be written.
        """
        path = folder / JOURNAL
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError as error:
            remedy = "Go on with it by --resume, or choose another folder."
            raise InputError(Problem("There is a run here already.", remedy, file=str(folder))) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _lock(descriptor, path)
            _sync_folder(folder)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(folder, descriptor, _Reading([], _Tail(), b""), sync)

    @classmethod
    def resume(cls, folder: Path, *, sync: Callable[[int], None] = os.fsync) -> Self:
        """An existing journal, to be appended to. A torn last line is put aside and cut; `note` says so.

        Raises InputError if there is none, MachineError if it is locked or cannot be written, EvidenceError if it
        is broken elsewhere than in its last line or holds no event.
        """
        path = folder / JOURNAL
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError as error:
            raise _no_run(folder) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _lock(descriptor, path)
            reading = _parse(path.read_bytes(), path)
            _opened(reading.events, path)
            journal = cls(folder, descriptor, reading, sync)
            journal._put_aside(reading.torn)
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    @property
    def events(self) -> Sequence[Event]:
        """All events so far, in order."""
        return self._events

    @property
    def opened(self) -> RunOpened:
        """The first event. Raises EvidenceError if none was appended yet."""
        return _opened(self._events, self.path)

    def append(self, event: Event) -> None:
        """Write one event and wait until the disk has it. The first must be RunOpened.

        Raises MachineError if it could not be written; then the file is as it was before.
        """
        if not self._events and not isinstance(event, RunOpened):
            raise ValueError("the first event of a journal is RunOpened")
        if self._stuck:
            raise MachineError(f"{self.path} holds half a line that could not be taken back.", "Resume the run.")
        line, tail = _line(self._tail, _encoder.encode(event))
        before = self._tail
        try:
            _write(self._descriptor, line)
            self._sync(self._descriptor)
            self._tail = tail
        except OSError as error:
            self._take_back(before)
            raise _unwritable(self.path, error) from error
        except BaseException:
            self._take_back(before)
            raise
        self._events.append(event)

    def close(self) -> None:
        """Give the lock back. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_back(self, before: _Tail) -> None:
        """Cut what a failed append may have left."""
        self._tail = before
        try:
            os.ftruncate(self._descriptor, before.size)
        except OSError:
            self._stuck = True

    def _put_aside(self, torn: bytes) -> None:
        """Keep a torn last line beside the journal, then cut it."""
        if not torn:
            return
        aside = self.path.with_name(f"{JOURNAL}.torn-{self._tail.lines + 1}")
        try:
            aside.write_bytes(torn)
            os.ftruncate(self._descriptor, self._tail.size)
            self._sync(self._descriptor)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.note = f"The last line of {JOURNAL} was torn ({len(torn)} bytes); it was cut and is kept in {aside.name}."


def read_events(folder: Path) -> tuple[Event, ...]:
    """All events of a run's journal; the rest as for `read_chain`."""
    return read_chain(folder)[0]


def read_chain(folder: Path) -> tuple[tuple[Event, ...], str]:
    """All events of a run's journal, and the last checksum (32 hex digits): it pins every line before it.

    Without a lock: it may be read while it is written. A torn last line is no event.
    Raises InputError if there is none, EvidenceError if it is broken elsewhere than in its last line.
    """
    path = folder / JOURNAL
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise _no_run(folder) from error
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}.", "Check its owner and rights.") from error
    reading = _parse(data, path)
    return tuple(reading.events), reading.tail.check.hex()


def is_locked(folder: Path) -> bool:
    """True if some process has this folder's journal open for writing."""
    try:
        descriptor = os.open(folder / JOURNAL, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _line(tail: _Tail, payload: bytes) -> tuple[bytes, _Tail]:
    """The line for an event's bytes, and the tail after it."""
    check = hashlib.blake2b(tail.check + payload, digest_size=_CHECK_BYTES).digest()
    line = b'%s%d,"check":"%s","event":%s}\n' % (_RECORD, tail.lines + 1, check.hex().encode(), payload)
    return line, _Tail(tail.lines + 1, tail.size + len(line), check)


def _parse(data: bytes, path: Path) -> _Reading:
    """Check and decode every line. Raises EvidenceError with the line's number if any but the last is broken."""
    *lines, torn = data.split(b"\n")
    events: list[Event] = []
    tail = _Tail()
    for place, line in enumerate(lines, start=1):
        payload = line[len(_RECORD) + len(str(place)) + len(',"check":""') + 2 * _CHECK_BYTES + len(',"event":') : -1]
        expected, after = _line(tail, payload)
        if expected[:-1] != line:
            if place == len(lines) and not torn and not _ANY_RECORD.search(line, 1):
                return _Reading(events, tail, line + b"\n")
            raise EvidenceError(
                f"{path}", f"line {place} is not what was written there: {_fault(line, place)}.", _RESTORE
            )
        events.append(_event(payload, path, place))
        tail = after
    return _Reading(events, tail, torn)


def _event(payload: bytes, path: Path, place: int) -> Event:
    """Decode one event; the first must open the run in a schema that is known here."""
    if place == 1:
        _require_schema(payload, path)
    try:
        event = _decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise EvidenceError(str(path), f"line {place} is no event that this version knows: {error}.") from error
    if place == 1 and not isinstance(event, RunOpened):
        raise EvidenceError(str(path), "line 1 does not open a run.", _RESTORE)
    return event


def _require_schema(payload: bytes, path: Path) -> None:
    try:
        schema = msgspec.json.decode(payload, type=_Schema).schema
    except msgspec.MsgspecError as error:
        raise EvidenceError(str(path), f"line 1 is not the opening of a run: {error}.") from error
    if schema > SCHEMA:
        raise MachineError(
            f"{path} is of schema {schema}; this servesmith reads up to {SCHEMA}.", "Install a newer servesmith."
        )


def _opened(events: Sequence[Event], path: Path) -> RunOpened:
    if events and isinstance(events[0], RunOpened):
        return events[0]
    raise EvidenceError(str(path), "holds no event: the run ended before it began.", "Start a new run.")


def _fault(line: bytes, place: int) -> str:
    """What kind of fault a broken line has, for people."""
    if not line.startswith(b"%s%d," % (_RECORD, place)):
        return f"it does not begin as record {place}, so a line was changed, lost or moved"
    if _ANY_RECORD.search(line, 1):
        return "two records stand on it"
    return "its checksum does not fit"


def _lock(descriptor: int, path: Path) -> None:
    """Take the exclusive lock, or raise MachineError. A passing `is_locked` of a reader is waited for."""
    for attempt in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < _LOCK_TRIES - 1:
                time.sleep(_LOCK_PAUSE_S)
        else:
            return
    raise MachineError(
        f"{path} is being written by another servesmith.", "Wait until that one has ended, or end it, then try again."
    )


def _write(descriptor: int, line: bytes) -> None:
    """Write all of it: one call may take less than it was given."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> MachineError:
    return MachineError(
        f"{path} cannot be written: {error.strerror}.", "Make room, or mend the rights of its folder, then --resume."
    )


def _no_run(folder: Path) -> InputError:
    return InputError(
        Problem("There is no run here.", "`servesmith runs` lists the runs that there are.", file=str(folder))
    )
