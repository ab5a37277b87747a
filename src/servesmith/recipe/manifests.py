"""A recipe from a file that starts a server, whatever its format."""

from pathlib import Path as FilePath

from servesmith.recipe import yamltext
from servesmith.recipe.compose import from_compose
from servesmith.recipe.docker_inspect import from_docker_inspect
from servesmith.recipe.files import read_text
from servesmith.recipe.importers import Imported
from servesmith.recipe.kubernetes import from_kubernetes
from servesmith.recipe.vllm_config import from_vllm_config

__all__ = ["from_compose", "from_docker_inspect", "from_kubernetes", "from_vllm_config", "import_file"]


def import_file(path: FilePath, name: str = "") -> Imported:
    """The recipe of a file in any of the four formats. Raises InputError."""
    text = read_text(path)
    if text.lstrip().startswith(("[", "{")):
        return from_docker_inspect(text, str(path), name)
    documents = yamltext.parse_all(text, str(path))
    keys = {key for document in documents if isinstance(document.data, dict) for key in document.data}
    if "services" in keys:
        return from_compose(text, str(path), name=name)
    if {"apiVersion", "kind"} <= keys:
        return from_kubernetes(text, str(path), name)
    return from_vllm_config(text, str(path), name)
