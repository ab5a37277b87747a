"""What a person sees while a run goes, on stderr: a view that renews itself, or plain lines without a terminal."""

import time
from collections.abc import Callable

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from servesmith.report import words
from servesmith.report.lines import event_line, trial_line
from servesmith.store.events import Decided, Event, TrialEnded
from servesmith.store.watch import Watcher
from servesmith.units import Seconds

Clock = Callable[[], Seconds]

_STYLES = {"better": "green", "worse": "red", "same": "", "undecided": "yellow"}
_PER_SECOND = 1.0
"""How often the view is drawn. Seldom, since it is drawn beside the client that measures."""
_MOST_VERDICTS = 8


def watcher(console: Console, clock: Clock = time.monotonic) -> Watcher:
    """The live view on a terminal, plain lines elsewhere."""
    return LiveView(console, clock) if console.is_terminal else PlainLines(console)


class PlainLines:
    """One line an event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, name: str, remaining_trials: int) -> None:
        """A stage begins."""
        self._say(f"== {name} ({words.count(remaining_trials, 'trial')} planned)")

    def trial_started(self, key: str) -> None:
        """Nothing: the line comes when the trial has ended."""

    def progress(self, key: str, elapsed: Seconds, total: Seconds, tokens: int) -> None:
        """Nothing: a log does not move."""

    def event(self, event: Event) -> None:
        """Its line, if it has one."""
        if said := event_line(event):
            self._say(said)

    def close(self) -> None:
        """Nothing is held."""

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


class Moment(msgspec.Struct):
    """What the view knows of the run right now."""

    stage: str = "starting"
    planned: int = 0
    done_in_stage: int = 0
    done: int = 0
    seconds: Seconds = 0.0
    key: str = ""
    elapsed: Seconds = 0.0
    total: Seconds = 0.0
    tokens: int = 0
    last: str = ""

    @property
    def remaining(self) -> Seconds | None:
        """Of this stage, by the mean length of the trials so far; None before the first."""
        return max(0, self.planned - self.done_in_stage) * self.seconds / self.done if self.done else None


class LiveView:
    """Decisions scroll by; below them stand stage, trial, time and verdicts. Other threads may tell it things."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._began = clock()
        self._now = Moment()
        self._verdicts: dict[str, Decided] = {}
        self._live = Live(
            console=console, get_renderable=self.frame, refresh_per_second=_PER_SECOND, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._live.start()

    def stage(self, name: str, remaining_trials: int) -> None:
        """A stage begins: its name stays above the view."""
        self._now.stage, self._now.planned, self._now.done_in_stage = name, remaining_trials, 0
        self._console.print(Text(name, "bold"))

    def trial_started(self, key: str) -> None:
        """Show which trial is under way."""
        self._now.key, self._now.elapsed, self._now.total, self._now.tokens = key, 0.0, 0.0, 0

    def progress(self, key: str, elapsed: Seconds, total: Seconds, tokens: int) -> None:
        """Remember how far its load is. Draws nothing: this is called while the client measures."""
        self._now.key, self._now.elapsed, self._now.total, self._now.tokens = key, elapsed, total, tokens

    def event(self, event: Event) -> None:
        """Count a trial, keep a verdict, let a decision scroll by."""
        if isinstance(event, TrialEnded):
            self._now.done += 1
            self._now.done_in_stage += 1
            self._now.seconds += event.result.seconds
            self._now.last, self._now.key = trial_line(event.result), ""
            return
        if isinstance(event, Decided):
            self._verdicts[f"{event.stage} {event.subject}"] = event
        if said := event_line(event):
            self._console.print(Text(f"  {said}"))

    def close(self) -> None:
        """Take the view off the screen. Closing twice is harmless."""
        self._live.stop()

    def frame(self) -> RenderableType:
        """The view as it stands now."""
        parts: list[RenderableType] = []
        if self._verdicts:
            parts.append(self._verdict_table())
        parts += [self._trial(), self._times()]
        if self._now.last:
            parts.append(Text(f"last: {self._now.last}", "dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _trial(self) -> RenderableType:
        now = self._now
        if not now.key:
            return Text("between trials", "dim")
        if not now.total:
            return Text.assemble((now.key, "bold"), "  starting")
        row = Table.grid(padding=(0, 2))
        rate = f"{now.tokens} tokens"
        seconds = f"{min(now.elapsed, now.total):.0f} of {now.total:.0f} s"
        bar = ProgressBar(total=now.total, completed=min(now.elapsed, now.total), width=24)
        row.add_row(Text(now.key, "bold"), bar, seconds, rate)
        return row

    def _times(self) -> Text:
        now = self._now
        left = now.remaining
        of = f"{min(now.done_in_stage + bool(now.key), max(now.planned, 1))} of about {now.planned}"
        ahead = f", about {words.span(left)} left in it" if left is not None else ""
        return Text(f"{now.stage}: trial {of}{ahead} · {words.span(self._clock() - self._began)} gone", "dim")

    def _verdict_table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for head in ("verdict", "blocks", "effect", "says"):
            table.add_column(head, justify="right" if head == "blocks" else "left")
        for name, decided in list(self._verdicts.items())[-_MOST_VERDICTS:]:
            verdict = decided.verdict
            says = Text(verdict.says, _STYLES[verdict.says])
            table.add_row(name, str(verdict.blocks), words.interval(verdict.effect), says)
        return table
