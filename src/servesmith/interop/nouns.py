"""What another tool reported, under our metric keys, and how its definition of each differs from ours."""

import msgspec

from servesmith.measure.records import Metric


class Definition(msgspec.Struct, frozen=True):
    """What a tool means by a number."""

    says: str
    differs: str = ""
    """What that changes against our definition; empty: it is the same."""


class Number(msgspec.Struct, frozen=True):
    """One number of a file."""

    metric: Metric
    """In our unit, under our key."""
    field: str
    """Where it stood in the file, `/` between the levels; an expression where it was computed from several."""
    definition: Definition


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The load as far as the file tells it. None: it does not."""

    streams: float | None = None
    """Most requests in flight that were allowed."""
    rate: float | None = None
    """Requests a second that were meant, open loop; None too where the rate was unlimited."""
    requests: float | None = None
    """Requests that ended well."""
    prompt_tokens: float | None = None
    """Mean a request."""
    output_tokens: float | None = None
    """Mean a request."""
    seconds: float | None = None
    """What the rates are divided by."""


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """One result of another tool."""

    file: str
    tool: str
    format: str
    """Link to the source of the format."""
    version: str = ""
    """Of the tool, if the file tells it."""
    model: str = ""
    date: str = ""
    """ISO 8601, as the file tells it; without an offset where the tool wrote none."""
    shape: Shape = Shape()
    numbers: dict[str, Number] = {}
    """By the key of our metric table."""
    unmapped: dict[str, str] = {}
    """Every other field of the file, and why it has no place here. Where nothing below a field was used, it stands
    for all below it."""


def headline(result: Foreign) -> str:
    """One line: which tool, what model, when, under which load, from which file."""
    shape = result.shape
    known = [
        (shape.streams, "{:g} streams"),
        (shape.rate, "{:g} requests/s"),
        (shape.requests, "{:g} requests"),
        (shape.prompt_tokens, "{:.6g} tokens in"),
        (shape.output_tokens, "{:.6g} tokens out"),
        (shape.seconds, "{:.4g} s"),
    ]
    told = [text.format(value) for value, text in known if value is not None]
    name = f"{result.tool} {result.version}".strip()
    return ", ".join(filter(None, (name, result.model, result.date, *told, result.file)))
