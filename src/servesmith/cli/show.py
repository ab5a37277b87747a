"""Everything that prints, but for the live view. Results go to stdout; notes and errors to stderr. The door to rich."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pydantic import BaseModel
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from servesmith.errors import InputError, Problem, ServesmithError
from servesmith.interop.nouns import headline
from servesmith.measure.metrics import METRICS
from servesmith.report import tables, words
from servesmith.report.tables import Table, Tone
from servesmith.store.replay import RESUMABLE

if TYPE_CHECKING:
    from servesmith.doctor import Finding
    from servesmith.interop.nouns import Foreign
    from servesmith.report.index import RunRow
    from servesmith.report.nouns import Headline, Summary
    from servesmith.store.verify import Check
    from servesmith.tune.preview import Preview
    from servesmith.tune.run import Run

_STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "red", "muted": "dim"}
_SAYS = {"better": "bold green", "worse": "bold red", "same": "bold", "undecided": "bold yellow", "none": "bold"}
_STATES: dict[str, Tone] = {"ok": "good", "bad": "bad", "failed": "bad", "broken": "bad", "done": "good"}
_NARROWEST = 110
"""Columns where the output is no terminal and so has no width of its own."""


def stdout() -> Console:
    """Where results go."""
    return _console(stderr=False)


def stderr() -> Console:
    """Where notes, errors and the live view go."""
    return _console(stderr=True)


def text(value: str) -> None:
    """This very text on stdout, as it is."""
    sys.stdout.write(value)


def line(value: str) -> None:
    """One line on stdout, never wrapped."""
    sys.stdout.write(f"{value}\n")


def note(value: str) -> None:
    """One line on stderr, never wrapped."""
    sys.stderr.write(f"{value}\n")


def json(value: object) -> None:
    """The one JSON document of `--json`, on stdout."""
    sys.stdout.write(as_json(value))


def as_json(value: object) -> str:
    """A value as an indented JSON document with its line end."""
    document = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2)
    return f"{document.decode()}\n"


def summary(found: "Summary") -> None:
    """What a run found: verdict first, then what it stands on."""
    out = stdout()
    _headline(out, found.headline)
    if costs := tables.costs(found):
        _paragraph(out, "costs", ", ".join(costs))
    for lever in found.levers:
        at = f" ({lever.stage})" if lever.status == "discarded" else ""
        _paragraph(out, lever.status, f"{lever.name}{at}: {lever.because}")
    for table in tables.main_tables(found):
        _table(out, table)
    for gated in found.gates[-1:]:
        _paragraph(out, "gate", f"{'passed' if gated.passed else 'not passed'}: {gated.because}")
    _sight(out, found)
    for name, entries in (("note", found.notes), ("doubt", found.doubts)):
        for entry in entries:
            _paragraph(out, name, entry)
    if found.journal:
        _paragraph(out, "journal", f"{found.journal} (checksum of its last line; it pins all before it)")
    _paragraph(out, "time", f"{words.count(found.time.trials, 'trial')}, {words.span(found.time.seconds)}")


def checks(found: "Sequence[Check]") -> None:
    """What `verify` compared."""
    out = stdout()
    for check in found:
        mark = Text("ok  ", "green") if check.ok else Text("FAIL", "bold red")
        _paragraph(out, check.name, Text.assemble(mark, " ", check.detail), width=13)
    out.print(
        "Recomputed and found as told: metrics, verdicts, gates, summary, page."
        if all(check.ok for check in found)
        else "The evidence does not hold.",
        style="bold",
    )


def problems(found: Sequence[Problem], clean: str) -> None:
    """Findings of a check on stdout, a paragraph each; `clean` if there are none."""
    for problem in found:
        line(str(problem))
    if not found:
        line(clean)


def error(found: ServesmithError) -> None:
    """An error for a person, on stderr: a paragraph for every problem."""
    paragraphs = [str(problem) for problem in found.problems] if isinstance(found, InputError) else [str(found)]
    for paragraph in paragraphs:
        note(f"error: {paragraph}")


def usage(message: str, command: str) -> None:
    """A command line that cannot be understood."""
    note(f"error: {message}")
    note(f"See `{command} --help`.")


def interrupted() -> None:
    """After Ctrl-C."""
    note("Interrupted.")


def bug(details: Path) -> None:
    """A bug of ours: said plainly, with where the details are."""
    note(f"This is a bug in servesmith, not in what you gave. The details are in {details}; please report them.")


@contextmanager
def ending(run: "Run") -> Generator[None]:
    """However the run ends, its view is closed; a run that did not come to its end says how to go on."""
    if run.shared:
        note(f"warning: {run.shared}")
    try:
        yield
    except BaseException as error:
        if isinstance(error, ServesmithError):
            run.broke_off(error)
        run.watch.close()
        note(f"All that was measured is kept in {run.folder}")
        if (verb := run.journal.opened.verb) in RESUMABLE:
            note(f"Go on with: servesmith {verb} --resume {run.folder}")
        raise
    run.watch.close()


def doctor(found: "Sequence[Finding]") -> None:
    """What is fit and what is not."""
    rows = [tables.Row((f.state, f.check, f.saw, f.remedy), _STATES.get(f.state, "")) for f in found]
    _table(stdout(), Table("", tables.columns("state", "check", "saw", "what to do"), tuple(rows)))


def runs(found: "Sequence[RunRow]", folder: Path) -> None:
    """The runs of a folder."""
    if not found:
        line(f"There are no runs in {folder}.")
        return
    rows = [tables.Row((r.folder, r.verb, r.state, str(r.trials), r.sentence), _STATES.get(r.state, "")) for r in found]
    _table(stdout(), Table("", tables.columns("run", "verb", "state", "trials>", "result"), tuple(rows)))


def foreign(found: "Sequence[Foreign]") -> None:
    """Numbers of other tools side by side, each with how its definition differs; then what has no place here."""
    out = stdout()
    names = [f"{number}" for number in range(1, len(found) + 1)]
    for name, result in zip(names, found, strict=True):
        _paragraph(out, name, headline(result))
    head = tables.columns("metric", "of>", "value>", "how its definition differs from ours")
    _table(out, Table("", head, tuple(_foreign_rows(found, names))))
    for name, result in zip(names, found, strict=True):
        doubts = {doubt for number in result.numbers.values() for doubt in number.metric.doubts}
        for doubt in sorted(doubts):
            _paragraph(out, f"doubt of {name}", doubt)
        if result.unmapped:
            _paragraph(out, f"left of {name}", ", ".join(result.unmapped))


def preview(found: "Preview", *, as_json: bool) -> None:
    """What a run would do: exact commands, and which levers it would try."""
    if as_json:
        json(found)
        return
    for name, command in found.commands.items():
        line(f"# {name}")
        line(command)
    for candidate in found.candidates:
        line(f"# {candidate.lever} ({candidate.risk}): {'' if candidate.tried else 'not tried: '}{candidate.because}")
        if candidate.command:
            line(candidate.command)
    line(
        f"# each trial first sends two requests alone, to warm the server and to count prompts, and then measures for "
        f"{found.trial_seconds:.0f} s, warm-up included; starting comes on top"
    )
    if found.blocks[1]:
        few, many = (words.span(2 * blocks * found.trial_seconds) for blocks in found.blocks)
        line(f"# {found.blocks[0]} to {found.blocks[1]} blocks of two trials each: {few} to {many} of measuring in all")
    if budget := float(found.settings.get("budget_s", 0)):
        line(f"# the budget of {words.span(budget)} for trials may end it earlier")
    if found.answers:
        line(f"# before them the quality gate: {words.count(found.answers, 'trial')} that answer its questions")


def rich_table(table: Table) -> RichTable:
    """A table as rich draws it."""
    drawn = RichTable(
        title=table.title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in table.columns:
        wrap = column.align == "left"
        drawn.add_column(column.head, justify=column.align, no_wrap=not wrap, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row.cells), style=_STYLES[row.tone])
    return drawn


def _foreign_rows(found: "Sequence[Foreign]", names: Sequence[str]) -> Generator[tables.Row]:
    """By metric, so that the tools stand under each other. What was said of a family is not said again."""
    said: set[tuple[str, str]] = set()
    for key in METRICS:
        for name, result in zip(names, found, strict=True):
            if (told := result.numbers.get(key)) is None:
                continue
            differs = told.definition.differs or "as ours"
            family = (key.partition("_")[0], differs)
            shown = "see above" if family in said and told.definition.differs else differs
            said.add(family)
            yield tables.Row((key, name, words.amount(told.metric.value, told.metric.unit), shown))


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _NARROWEST
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def _headline(out: Console, found: "Headline") -> None:
    says = "" if found.says == "none" else f"{found.says.upper()}  "
    out.print(Text.assemble((says, _SAYS[found.says]), (found.sentence, "bold")))


def _sight(out: Console, found: "Summary") -> None:
    """Noise, and the smallest gain that could have been seen."""
    if found.noise:
        effect = words.interval(found.noise.verdict.effect)
        _paragraph(out, "noise", f"A against A {effect}; one block scatters by {100 * found.noise.sd:.2f} %")
    if found.headline.detectable:
        smallest = words.percent(1 + found.headline.detectable).lstrip("+")
        _paragraph(out, "could show", f"gains from {smallest} on (80 % power)")


def _paragraph(out: Console, name: str, value: str | Text, width: int = 11) -> None:
    """A name in the margin and a text that wraps beside it."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=width, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(name, value)
    out.print(grid)


def _table(out: Console, table: Table) -> None:
    if table.rows:
        out.print(Padding(rich_table(table), (1, 0, 0, 0)))


def _plain(value: object) -> object:
    """What msgspec does not know by itself."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__name__)
