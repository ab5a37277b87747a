"""The limits that keep the source readable: what is over them fails here, with its place."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "servesmith"
LINES_OF_A_FUNCTION = 60
LINES_OF_A_FILE = 450
PARAMETERS = 7
OPTIONS = ("cli",)
"""Rooms where a function's parameters are a command's options."""


def functions():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path.relative_to(SOURCE), node


def test_no_function_is_longer_than_a_screen():
    long = [f"{path}:{node.lineno} {node.name}" for path, node in functions()
            if node.end_lineno - node.lineno + 1 > LINES_OF_A_FUNCTION]  # fmt: skip
    assert not long


def test_no_file_is_longer_than_a_reader():
    assert not [path for path in SOURCE.rglob("*.py") if path.read_text().count("\n") > LINES_OF_A_FILE]


def test_no_function_takes_more_than_a_type_should():
    many = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in functions()
        if len(node.args.args) + len(node.args.kwonlyargs) > PARAMETERS and path.parts[0] not in OPTIONS
    ]
    assert not many
