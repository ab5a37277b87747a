"""One simple shell command to its words. Anything a shell would do beyond that is refused, not guessed."""

import re
import shlex
from collections.abc import Mapping

from servesmith.errors import InputError
from servesmith.recipe.argv import command_problem
from servesmith.recipe.secrets import is_secret_name

_PIECE = re.compile(
    r"""(?P<single>'[^']*')
      | (?P<double>"(?:\\.|[^"\\])*")
      | (?P<escape>\\.)
      | (?P<tilde>(?<!\S)~(?=/|\s|$))
      | (?P<variable>\$\{\w+\}|\$\w+)
      | (?P<char>.)""",
    re.DOTALL | re.VERBOSE,
)
_TILDE = "~"
_VARIABLE = re.compile(r"\\.|\$\{(\w+)\}|\$(\w+)|[$`]", re.DOTALL)
_OPERATORS = {
    "|": "a pipe",
    "&": "`&` or `&&`",
    ";": "`;`",
    "<": "a redirection",
    ">": "a redirection",
    "(": "a subshell",
    ")": "a subshell",
    "`": "a command substitution",
    "$": "an expansion",
    "\n": "more than one line",
}


def split_shell(text: str, env: Mapping[str, str] | None = None, home: str = "") -> list[str]:
    """The words of one simple command; `$NAME` is taken from `env`, `~` is `home`. Raises InputError for anything else.

    Secret variables are not replaced: their name stays in the text.
    """
    known = {**(env or {}), _TILDE: home}
    text = text.replace("\r\n", "\n").strip()
    pieces = [_piece(found, known) for found in _PIECE.finditer(text)]
    try:
        return shlex.split("".join(pieces))
    except ValueError as error:
        message = f"Is no complete shell command: {str(error).lower()}."
        raise InputError(command_problem(message, "Close every quote.", text[:60])) from None


def _piece(found: re.Match[str], env: Mapping[str, str]) -> str:
    text = found.group()
    match found.lastgroup:
        case "escape":
            return "" if text == "\\\n" else text
        case "double":
            return _VARIABLE.sub(lambda inner: _in_quotes(inner, env), text)
        case "variable":
            return shlex.join(_variable(text.strip("${}"), env).split())
        case "tilde":
            return _home(env[_TILDE])
        case "char" if text in _OPERATORS:
            message = f"Uses {_OPERATORS[text]}, which only a shell can run."
            raise InputError(
                command_problem(message, "Give the one command that starts the server.", text.strip() or "\\n")
            )
        case _:
            return text


def _home(home: str) -> str:
    if not home:
        raise InputError(command_problem("Whose home `~` is cannot be told here.", "Write the full path.", "~"))
    return shlex.quote(home)


def _in_quotes(found: re.Match[str], env: Mapping[str, str]) -> str:
    text = found.group()
    if text.startswith("\\"):
        # shlex itself undoes only \\ and \" inside double quotes
        return {"\\\n": "", "\\$": "$", "\\`": "`"}.get(text, text)
    name = found.group(1) or found.group(2)
    if name is None:
        message = "Uses an expansion, which only a shell can run."
        raise InputError(command_problem(message, "Write its result instead.", text))
    return re.sub(r'([\\"])', r"\\\1", _variable(name, env))


def _variable(name: str, env: Mapping[str, str]) -> str:
    if is_secret_name(name):
        return f"${name}"
    if name not in env:
        message = f"The value of ${name} is not known here."
        raise InputError(command_problem(message, f"Write the value instead of ${name}.", name))
    return env[name]
