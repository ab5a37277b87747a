"""`servesmith schema`: the JSON Schema of recipe files, for editors."""

from servesmith.cli import show
from servesmith.recipe.files import case_schema


def schema() -> int:
    """Print the JSON Schema of recipe files.

    Example: servesmith schema > recipe.schema.json
    """
    show.json(case_schema())
    return 0
