"""Which adapter drives which engine."""

from servesmith.engine.base import Adapter
from servesmith.engine.endpoint import Endpoint
from servesmith.engine.llamacpp import LlamaCpp
from servesmith.engine.sim import Sim
from servesmith.errors import MachineError
from servesmith.recipe.model import EngineKind

DRIVEN: frozenset[EngineKind] = frozenset({"llamacpp", "sim", "endpoint"})
"""Engines that this version can start or measure. Recipes of the others can be made, read and linted."""


def adapter(kind: EngineKind) -> Adapter:
    """The adapter of an engine. Raises MachineError for one that this version cannot drive."""
    match kind:
        case "llamacpp":
            return LlamaCpp()
        case "sim":
            return Sim()
        case "endpoint":
            return Endpoint()
        case "vllm" | "sglang":
            raise MachineError(
                f"Engine {kind} is not in this version.",
                "Start the server yourself and use `engine: endpoint` with its url, or use llamacpp.",
            )
