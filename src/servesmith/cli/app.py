"""The command `servesmith`: registers the verbs, and is the one place where errors become exit codes.

0 done; 1 the answer is no (a gate failed, a check found something); 2 bad input; 3 this machine cannot;
4 evidence does not hold; 5 the client could not keep up; 130 interrupted. A bug ends with 70.
"""

import errno
import os
import shlex
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import typer
from typer.exceptions import TyperException

from servesmith import __version__
from servesmith.cli import (
    ablate,
    bench,
    check,
    clean,
    compare,
    demo,
    doctor,
    export,
    gate,
    imports,
    init,
    knee,
    prefill,
    report,
    runs,
    schema,
    show,
    soak,
    start,
    tune,
    verify,
)  # fmt: skip
from servesmith.errors import MachineError, ServesmithError
from servesmith.recipe.secrets import mask_words

BUG = 70
INTERRUPTED = 130

app = typer.Typer(
    name="servesmith",
    help="From the flags an LLM server runs with today to a faster recipe, with proof that anyone can replay.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        show.line(__version__)
        raise typer.Exit


@app.callback()
def _root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show it.")) -> None:
    del version


for verb in (
    init,
    check,
    doctor,
    demo,
    bench,
    knee,
    prefill,
    start,
    soak,
    compare,
    gate,
    tune,
    ablate,
    report,
    runs,
    clean,
    verify,
    imports,
    export,
    schema,
):
    name = verb.__name__.rsplit(".", 1)[-1]
    app.command(getattr(verb, "NAME", name), **getattr(verb, "SETTINGS", {}))(getattr(verb, name))


def main() -> None:
    """Run the command line and end the process with the right exit code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    sys.exit(_run())


def _as_interrupt(*_: object) -> None:
    """SIGTERM (a batch system, a service manager) ends as gently as Ctrl-C."""
    raise KeyboardInterrupt


def _run() -> int:
    try:
        result = app(standalone_mode=False)
    except ServesmithError as error:
        show.error(error)
        return error.exit_code
    except TyperException as error:
        if not error.format_message():  # bare `servesmith`: the help was shown
            return 2
        show.usage(error.format_message(), getattr(getattr(error, "ctx", None), "command_path", "servesmith"))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        show.interrupted()
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  the one place: a bug is reported, not thrown at the user
        return _unforeseen(error)
    return int(result) if isinstance(result, int) else 0


def _unforeseen(error: Exception) -> int:
    """A disk that ran full can show anywhere where something is written; all else is a bug."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return _bug()
    where = f" for {error.filename}" if error.filename else ""
    remedy = "Free some, or choose another folder by --runs or -o."
    full = MachineError(f"No space is left on the device{where}.", remedy)
    show.error(full)
    return full.exit_code


def _bug() -> int:
    with tempfile.NamedTemporaryFile("w", prefix="servesmith-", suffix=".txt", delete=False) as file:
        file.write(f"servesmith {__version__}\n{shlex.join(mask_words(sys.argv))}\n\n{traceback.format_exc()}")
    show.bug(Path(file.name))
    return BUG
