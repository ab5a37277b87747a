"""The journal: written, cut, changed, locked, full."""

import errno
import os
import resource
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.errors import EvidenceError, InputError, MachineError
from servesmith.stats.verdict import Estimate, Verdict
from servesmith.store.events import Decided, Kept, Noted, RunOpened, TrialStarted
from servesmith.store.journal import JOURNAL, Journal, is_locked, read_events

OPENED = RunOpened(verb="tune", name="n", servesmith="0", case_hash="c", seed=1, at="t", settings={"seq": 1})
VERDICT = Verdict(
    says="better",
    metric="m",
    effect=Estimate(1.03, 1.01, 1.05, 0.95),
    blocks=4,
    because='"even"\nso',
    log_ratios=(0.1,),
)


def some_events(count=30):
    makers = (
        lambda i: TrialStarted(key=f"confirm/parallel=8/block-{i}/A", at="2026-12-01T12:00:00+00:00"),
        lambda i: Kept(lever=f"l{i}", because='größer {"seq":3}'),
        lambda i: Noted(note="n" * i),
        lambda i: Decided(stage="confirm", subject=f"l{i}", verdict=VERDICT, trials=("a", "b")),
    )
    return [OPENED, *(makers[i % 4](i) for i in range(1, count))]


def written(folder, events):
    with Journal.create(folder, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    return (folder / JOURNAL).read_bytes()


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Bytes of a 30-event journal, its events, and where each line ends."""
    events = some_events()
    data = written(tmp_path_factory.mktemp("sample"), events)
    ends = [place + 1 for place, byte in enumerate(data) if byte == 10]
    assert len(ends) == 30
    return data, events, ends


def test_what_was_appended_is_read_back(tmp_path):
    events = some_events()
    written(tmp_path / "run", events)
    assert list(read_events(tmp_path / "run")) == events
    with Journal.resume(tmp_path / "run") as journal:
        assert list(journal.events) == events
        assert (journal.opened, journal.note) == (OPENED, "")
        journal.append(Noted(note="more"))
    assert read_events(tmp_path / "run")[-1] == Noted(note="more")


def test_every_append_is_synced(tmp_path):
    synced = []
    with Journal.create(tmp_path, sync=lambda fd: synced.append(os.fstat(fd).st_size)) as journal:
        for event in some_events(3):
            journal.append(event)
    assert synced == sorted(set(synced))
    assert len(synced) == 3


def test_cut_at_every_byte_loses_only_the_line_that_was_cut(tmp_path, sample):
    data, events, ends = sample
    path = tmp_path / JOURNAL
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert list(read_events(tmp_path)) == events[:whole]
        if whole == 0:
            with pytest.raises(EvidenceError, match="holds no event"):
                Journal.resume(tmp_path)
            continue
        with Journal.resume(tmp_path, sync=lambda _: None) as journal:
            assert list(journal.events) == events[:whole]
            torn = data[ends[whole - 1] : cut]
            assert bool(journal.note) == bool(torn)
            for event in events[whole:]:
                journal.append(event)
        assert path.read_bytes() == data
        aside = tmp_path / f"{JOURNAL}.torn-{whole + 1}"
        if torn:
            assert aside.read_bytes() == torn
            aside.unlink()
        assert not aside.exists()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_changed_byte_before_the_last_line_is_found_at_its_line(tmp_path_factory, sample, data):
    whole, _, ends = sample
    place = data.draw(st.integers(0, ends[-2] - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[place]))
    folder = tmp_path_factory.mktemp("flip")
    (folder / JOURNAL).write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
    line = 1 + sum(end <= place for end in ends)
    with pytest.raises(EvidenceError) as caught:
        read_events(folder)
    assert f"line {line} is not what was written there" in str(caught.value)
    assert caught.value.file.endswith(JOURNAL)
    with pytest.raises(EvidenceError):
        Journal.resume(folder)
    assert not is_locked(folder)


def test_a_changed_byte_in_the_last_line_takes_that_line_only(tmp_path, sample):
    whole, events, ends = sample
    for place in range(ends[-2], len(whole)):
        (tmp_path / JOURNAL).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert list(read_events(tmp_path)) == events[:-1]


@pytest.mark.parametrize("change", ["drop", "swap", "double", "blank"])
def test_lost_moved_repeated_and_blank_lines_are_found(tmp_path, sample, change):
    lines = sample[0].splitlines(keepends=True)
    changed = {
        "drop": lines[:9] + lines[10:],
        "swap": [*lines[:9], lines[10], lines[9], *lines[11:]],
        "double": [*lines[:9], lines[8], *lines[9:]],
        "blank": [*lines[:9], b"\n", *lines[9:]],
    }[change]
    (tmp_path / JOURNAL).write_bytes(b"".join(changed))
    with pytest.raises(EvidenceError, match="line 10 is not what was written there: it does not begin as record 10"):
        read_events(tmp_path)


def test_a_line_of_another_run_is_found(tmp_path, sample):
    other = written(tmp_path / "other", [OPENED, *(Noted(note="x") for _ in range(29))]).splitlines(keepends=True)
    lines = sample[0].splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join([*lines[:9], other[9], *lines[10:]]))
    with pytest.raises(EvidenceError, match=r"line 10 .* its checksum does not fit"):
        read_events(tmp_path)


def opened_with(folder, replacement):
    """A journal whose first event is `replacement`, with a right checksum."""
    from servesmith.store import journal as module

    line, _ = module._line(module._Tail(), replacement)
    (folder / JOURNAL).write_bytes(line)


def test_a_newer_schema_is_refused_with_its_remedy_even_if_unreadable(tmp_path):
    opened_with(tmp_path, b'{"type":"run-opened","schema":99,"verb":["of","the","future"]}')
    with pytest.raises(MachineError, match=r"schema 99; this servesmith reads up to 1\. Install a newer"):
        read_events(tmp_path)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b'{"type":"noted","note":"x"}', "line 1 does not open a run"),
        (b'{"type":"unheard-of"}', "line 1 is no event that this version knows"),
        (b"[1]", "line 1 is not the opening of a run"),
    ],
)
def test_a_first_line_that_opens_no_run_is_refused(tmp_path, payload, says):
    opened_with(tmp_path, payload)
    with pytest.raises(EvidenceError, match=says):
        read_events(tmp_path)


def test_the_first_event_must_open_the_run(tmp_path):
    with Journal.create(tmp_path) as journal:
        with pytest.raises(ValueError):
            journal.append(Noted(note="x"))
        with pytest.raises(EvidenceError):
            _ = journal.opened


def test_no_run_and_a_second_run_in_one_folder_are_refused(tmp_path):
    for attempt in (read_events, Journal.resume):
        with pytest.raises(InputError, match="There is no run here"):
            attempt(tmp_path)
    Journal.create(tmp_path).close()
    with pytest.raises(InputError, match="There is a run here already"):
        Journal.create(tmp_path)


HOLDER = """
import sys, time
from pathlib import Path
from servesmith.store.journal import Journal
journal = Journal.resume(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_one_writer_only_and_a_killed_one_gives_the_lock_back(tmp_path):
    written(tmp_path, some_events(3))
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        assert is_locked(tmp_path)
        with pytest.raises(MachineError, match="is being written by another servesmith"):
            Journal.resume(tmp_path)
        assert len(read_events(tmp_path)) == 3  # reading needs no lock
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert not is_locked(tmp_path)
    Journal.resume(tmp_path).close()


def test_two_writers_in_one_process_are_refused_too(tmp_path):
    with Journal.create(tmp_path) as journal:
        journal.append(OPENED)
        with pytest.raises(MachineError):
            Journal.resume(tmp_path)
    assert not is_locked(tmp_path)
    assert not is_locked(tmp_path / "nowhere")


def test_a_full_disk_leaves_no_half_line_and_can_be_gone_on_from(tmp_path):
    """A file size limit makes the kernel take half of a write, as a full disk does."""
    with Journal.create(tmp_path) as journal:
        journal.append(OPENED)
        before = journal.path.read_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
        try:
            with pytest.raises(MachineError, match=r"cannot be written: File too large\. Make room"):
                journal.append(Noted(note="x" * 1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert journal.path.read_bytes() == before
        assert list(journal.events) == [OPENED]
        journal.append(Noted(note="after"))
    assert read_events(tmp_path) == (OPENED, Noted(note="after"))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_an_event_that_was_not_synced_is_taken_back(tmp_path, error):
    failing = [False]

    def sync(_):
        if failing[0]:
            raise error

    with Journal.create(tmp_path, sync=sync) as journal:
        journal.append(OPENED)
        failing[0] = True
        with pytest.raises((MachineError, KeyboardInterrupt)):
            journal.append(Noted(note="lost"))
        failing[0] = False
        journal.append(Noted(note="kept"))
    assert read_events(tmp_path) == (OPENED, Noted(note="kept"))


def test_a_half_line_that_cannot_be_taken_back_ends_the_writing(tmp_path):
    def sync(fd):
        if journal.events:
            os.close(fd)  # from here on neither syncing nor cutting works
            raise OSError(errno.EIO, "Input/output error")

    journal = Journal.create(tmp_path, sync=sync)
    journal.append(OPENED)
    for says in ("cannot be written", "could not be taken back"):
        with pytest.raises(MachineError, match=says):
            journal.append(Noted(note="x"))


def test_a_place_that_cannot_be_written_is_a_machine_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MachineError, match="cannot be written"):
        Journal.create(tmp_path / "file" / "run")
    (tmp_path / "run" / JOURNAL).mkdir(parents=True)
    with pytest.raises(MachineError, match="cannot be written"):
        Journal.resume(tmp_path / "run")


@pytest.mark.alone
def test_a_hundred_thousand_events_load_in_two_seconds(tmp_path):
    makers = some_events()[1:]
    written(tmp_path, [OPENED, *(makers[i % 29] for i in range(99_999))])
    began = time.perf_counter()
    events = read_events(tmp_path)
    took = time.perf_counter() - began
    assert len(events) == 100_000
    assert took < 2.0
