import json
from pathlib import Path

import pytest

from servesmith.engine.facts import not_honoured, read_facts

LOG = Path(__file__).parents[2] / "data" / "engine-logs" / "llamacpp-verbosity-4.log"


def read(*lines: str, **properties: object):
    return read_facts(lines, {f"/{name}": body for name, body in properties.items()})


def test_a_real_log_golden():
    facts = read_facts(LOG.read_text().splitlines(), {})
    assert facts.engine == "llamacpp"
    assert facts.version == "xllamacpp 2026.10.11549"
    golden = Path(__file__).parents[2] / "golden" / "llamacpp-facts.json"
    assert facts.values == json.loads(golden.read_text())
    assert facts.warnings == ("--poll does nothing in this build: OpenMP runs its threads",)


def test_properties_win_over_the_log():
    facts = read(
        "srv load_model: initializing, n_slots = 2, n_ctx_slot = 100, kv_unified = 'true'",
        props={"total_slots": 3, "default_generation_settings": {"n_ctx": 50}, "build_info": "b9-abc"},
        slots=[{"speculative": True}, {"speculative": False}],
    )
    assert (facts.values["slots"], facts.values["ctx_per_slot"], facts.values["kv_unified"]) == ("3", "50", "true")
    assert (facts.values["slots_listed"], facts.values["slots_speculative"]) == ("2", "1")
    assert facts.version == "b9-abc"


def test_odd_properties_are_no_facts():
    assert read(props=["odd"], slots={"odd": 1}).values == {"speculation": "none"}


def test_warnings_of_the_engine_once_each_without_the_irrelevant():
    facts = read(
        "0.00.479.552 W llama_context: n_ctx_seq (4000000) > n_ctx_train (8192) -- possible training context overflow",
        "0.00.579.552 W llama_context: n_ctx_seq (4000000) > n_ctx_train (8192) -- possible training context overflow",
        "0.00.003.397 W srv          init: security: no API key is set and CORS allows all origins",
        "0.00.003.397 I srv          init: fine",
    )
    assert facts.warnings == (
        "llama_context: n_ctx_seq (4000000) > n_ctx_train (8192) -- possible training context overflow",
    )


@pytest.mark.parametrize(
    ("requested", "values", "count"),
    [
        ({"parallel": 8}, {"slots": "8"}, 0),
        ({"parallel": 8}, {"slots": "4"}, 1),
        ({"parallel": -1}, {"slots": "4"}, 0),
        ({"parallel": 8}, {}, 0),
        ({"flash-attn": "ENABLED"}, {"flash_attention": "enabled"}, 0),
        ({"flash-attn": "ENABLED"}, {"flash_attention": "disabled"}, 1),
        ({"flash-attn": "AUTO"}, {"flash_attention": "disabled"}, 0),
        ({"cache-type-k": "q8_0"}, {"kv_type_k": "f16"}, 1),
        ({"spec-type": ["ngram-mod"]}, {"speculation": "none"}, 1),
        ({"kv-unified": True}, {"kv_unified": "true"}, 0),
        ({"poll": 0}, {"instructions": "CPU : OPENMP = 1"}, 1),
        ({"poll": 0}, {"instructions": "CPU : AVX2 = 1"}, 0),
    ],
)
def test_a_flag_that_the_engine_contradicts_is_a_warning(requested, values, count):
    assert len(not_honoured(requested, values)) == count
