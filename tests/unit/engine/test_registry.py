import pytest

from servesmith.engine.endpoint import Endpoint
from servesmith.engine.llamacpp import LlamaCpp
from servesmith.engine.registry import adapter
from servesmith.engine.sim import Sim
from servesmith.errors import MachineError
from servesmith.recipe.model import Recipe


@pytest.mark.parametrize(("kind", "kept"), [("llamacpp", LlamaCpp), ("sim", Sim), ("endpoint", Endpoint)])
def test_each_engine_has_its_adapter(kind, kept):
    assert type(adapter(kind)) is kept


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_what_this_version_cannot_drive_is_said(kind):
    with pytest.raises(MachineError, match=f"Engine {kind} is not in this version"):
        adapter(kind)


def test_an_endpoint_is_never_started():
    with pytest.raises(MachineError, match="someone else runs"):
        Endpoint().command(Recipe(name="x", engine="endpoint", url="http://x"), 1)


@pytest.mark.parametrize(
    ("properties", "version", "values"),
    [
        ({}, "", {}),
        ({"/version": {"version": "0.33.0"}, "/v1/models": {"data": [{"id": "m"}]}}, "0.33.0", {"models": "m"}),
        ({"/props": {"build_info": "b1-x", "total_slots": 4}}, "b1-x", {"slots": "4"}),
        ({"/props": ["odd"], "/v1/models": {"data": "odd"}}, "", {}),
    ],
)
def test_what_an_endpoint_tells(properties, version, values):
    facts = Endpoint().facts((), properties)
    assert (facts.version, facts.values) == (version, values)
