"""The adapter of a server that someone else runs: it can be measured, never started and never stopped."""

from collections.abc import Iterable

from servesmith.engine import failures
from servesmith.engine.base import Command, Facts, Failure
from servesmith.engine.jsonview import as_list, as_map
from servesmith.errors import MachineError
from servesmith.recipe.model import Recipe


class Endpoint:
    """The adapter of `engine: endpoint`. `launch.serve` is not for it."""

    def command(self, recipe: Recipe, port: int) -> Command:
        """Always raises MachineError."""
        raise MachineError(
            f"{recipe.name} is a server that someone else runs ({recipe.url}); servesmith cannot start it.",
            "Use bench, gate or compare on it; a tune needs a recipe with an engine.",
        )

    def facts(self, log: Iterable[str], properties: dict[str, object]) -> Facts:
        """What its endpoints tell, whichever engine it is."""
        values: dict[str, str] = {}
        version = _text(properties.get("/version"), "version") or _text(properties.get("/props"), "build_info")
        if slots := _text(properties.get("/props"), "total_slots"):
            values["slots"] = slots
        models = as_list(as_map(properties.get("/v1/models")).get("data"))
        if models:
            values["models"] = ",".join(str(as_map(model).get("id")) for model in models)
        return Facts("endpoint", version, values)

    def version(self) -> str:
        """See `Adapter.version`."""
        return ""

    def property_paths(self) -> tuple[str, ...]:
        """vLLM and SGLang answer the first, llama.cpp the second, all the last."""
        return ("/version", "/props", "/v1/models")

    def failure(self, log: Iterable[str], exit_code: int | None) -> Failure:
        """See `Adapter.failure`; there is no log of a server that someone else runs."""
        return failures.classify(log, exit_code)

    def known_flags(self) -> frozenset[str] | None:
        """It takes none from us."""
        return frozenset()


def _text(body: object, key: str) -> str:
    return str(as_map(body).get(key, ""))
