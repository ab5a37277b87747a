import io
import re

import pytest
from rich.console import Console

from servesmith.cli.live import LiveView, PlainLines, watcher
from servesmith.store.events import TrialEnded
from servesmith.store.journal import read_events


@pytest.fixture(scope="module")
def events(tuned):
    return read_events(tuned)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def pipe() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=120)


def seen(view: LiveView) -> str:
    """The view as it stands, as text."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(view.frame())
    return console.file.getvalue()


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self) -> float:
            return self.now

    return Clock()


def test_a_terminal_gets_the_view_and_a_pipe_gets_lines():
    view = watcher(terminal())
    view.close()
    assert isinstance(view, LiveView)
    assert isinstance(watcher(pipe()), PlainLines)


def test_a_pipe_gets_one_unwrapped_line_an_event(events):
    console = pipe()
    lines = watcher(console)
    lines.stage("noise: the baseline against itself", 8)
    lines.trial_started("noise/block-1/A")
    lines.progress("noise/block-1/A", 1.0, 9.0, 30)
    for event in events:
        lines.event(event)
    lines.close()
    told = console.file.getvalue().splitlines()
    assert told[0] == "== noise: the baseline against itself (8 trials planned)"
    assert len(told) == 1 + sum(1 for event in events if type(event).__name__ not in ("RunOpened", "TrialStarted"))
    assert "\x1b" not in console.file.getvalue()


def test_the_view_shows_stage_trial_time_and_verdicts(events, clock):
    view = LiveView(terminal(), clock)
    view.stage("confirm: paired blocks", 16)
    for event in events:
        view.event(event)
        if isinstance(event, TrialEnded) and event.result.key.startswith("confirm/parallel=8/block-4/A"):
            break
    view.stage("confirm: paired blocks", 16)
    decided = next(event for event in events if type(event).__name__ == "Decided")
    view.event(decided)
    view.event(next(event for event in events if isinstance(event, TrialEnded)))
    view.trial_started("confirm/ngram-simple/block-1/A")
    view.progress("confirm/ngram-simple/block-1/A", 3.2, 9.0, 412)
    clock.now += 200
    frame = seen(view)
    view.close()
    assert "confirm/ngram-simple/block-1/A" in frame
    assert "3 of 9 s" in frame
    assert "412 tokens" in frame
    assert "confirm: paired blocks: trial 2 of about 16, about 2 min 22 s left in it · 3 min 20 s gone" in frame
    assert "confirm parallel=8" in frame
    assert "better" in frame
    assert "last: noise/block-1/A ok" in frame


def test_decisions_scroll_by_and_trials_do_not(events, clock):
    console = terminal()
    view = LiveView(console, clock)
    for event in events:
        view.event(event)
    view.close()
    lines = [re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line).strip() for line in console.file.getvalue().splitlines()]
    assert any(line.startswith("keep parallel=8") for line in lines)
    assert any(line.startswith("discard threads-1 (screen)") for line in lines)
    assert not any(line.startswith("noise/block-1/A ok") for line in lines)


def test_before_the_first_trial_nothing_is_promised(clock):
    view = LiveView(terminal(), clock)
    view.stage("noise", 8)
    frame = seen(view)
    view.trial_started("noise/block-1/A")
    assert "left" not in frame
    assert "between trials" in frame
    assert "noise/block-1/A  starting" in seen(view)
    view.close()
    view.close()
