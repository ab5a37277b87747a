"""What llama.cpp says it did: read from its log (verbosity 4), our resolved line, /props and /slots."""

import json
import re
from collections.abc import Iterable, Mapping

from servesmith.engine.base import Facts
from servesmith.engine.jsonview import as_list, as_map
from servesmith.engine.llamaserver import RESOLVED

WARNING_LIMIT = 50
"""Different warnings kept; an engine that repeats itself must not fill the facts."""

_PATTERNS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), names)
    for pattern, names in (
        (r"build_info: (\S+)", ("build",)),
        (r"system_info: n_threads = (\d+) \(n_threads_batch = (\d+)\)", ("threads", "threads_batch")),
        (r"system_info: .*?\| (CPU : .+?)[ |]*$", ("instructions",)),
        (r"using (\d+) threads for HTTP server", ("threads_http",)),
        (r"n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(\w+)'", ("slots", "ctx_per_slot", "kv_unified")),
        (r"llama_context: n_ctx +?= (\d+)", ("ctx",)),
        (r"llama_context: n_batch += (\d+)", ("batch",)),
        (r"llama_context: n_ubatch += (\d+)", ("ubatch",)),
        (r"llama_context: flash_attn += (\w+)", ("flash_attention",)),
        (r"Flash Attention (enabled|disabled)", ("flash_attention",)),
        (r"llama_kv_cache: size = +([\d.]+) MiB.*K \((\w+)\).*V \((\w+)\)", ("kv_mib", "kv_type_k", "kv_type_v")),
        (r"\(load_mode = ([\w+]+)\)", ("load_mode",)),
        (r"model buffer size = +([\d.]+) MiB", ("model_mib",)),
        (r"compute buffer size = +([\d.]+) MiB", ("compute_mib",)),
        (r"prompt cache is (enabled, size limit: .+|disabled)", ("prompt_cache",)),
        (r"context checkpoints enabled, max = (\d+)", ("ctx_checkpoints",)),
        (r"file type +?= (\S+)", ("quantisation",)),
    )
)
"""A line's pattern, and the facts its groups give."""

_SPECULATION = re.compile(r"adding speculative implementation '([\w-]+)'")
_LEVEL = re.compile(r"^[\d.]+ ([WE]) +(.*)")
_NOT_ABOUT_SPEED = re.compile(r"security: |cancel task")

_SHOWN_BY: Mapping[str, str] = {
    "parallel": "slots",
    "threads": "threads",
    "threads-batch": "threads_batch",
    "threads-http": "threads_http",
    "batch-size": "batch",
    "ubatch-size": "ubatch",
    "cache-type-k": "kv_type_k",
    "cache-type-v": "kv_type_v",
    "flash-attn": "flash_attention",
    "kv-unified": "kv_unified",
    "load-mode": "load_mode",
    "spec-type": "speculation",
    "ctx-checkpoints": "ctx_checkpoints",
}
"""Flag to the fact that shows whether it was honoured."""
_OURS = ("model", "alias", "host", "port", "metrics", "verbosity")
"""Flags that servesmith sets itself: not worth a fact."""
_LEFT_TO_THE_ENGINE = ("-1", "0", "auto")


def read_facts(log: Iterable[str], properties: Mapping[str, object]) -> Facts:
    """Facts of one start. Later lines win, except where the engine repeats a step to fit memory."""
    values: dict[str, str] = {}
    warnings: list[str] = []
    requested: dict[str, object] = {}
    speculation: list[str] = []
    version = ""
    for line in log:
        if line.startswith(RESOLVED):
            resolved = json.loads(line.removeprefix(RESOLVED))
            version, requested = f"xllamacpp {resolved['version']}", resolved["requested"]
            continue
        _read_line(line, values)
        speculation += _SPECULATION.findall(line)
        if (level := _LEVEL.match(line)) and not _NOT_ABOUT_SPEED.search(line):
            warnings.append(level[2].strip())
    values["speculation"] = ",".join(dict.fromkeys(speculation)) or "none"
    _read_properties(properties, values)
    values.update({f"requested {name}": _text(value) for name, value in requested.items() if name not in _OURS})
    warnings += not_honoured(requested, values)
    unique = tuple(dict.fromkeys(warnings))[:WARNING_LIMIT]
    return Facts("llamacpp", version or values.get("build", ""), values, unique)


def _read_line(line: str, values: dict[str, str]) -> None:
    for pattern, names in _PATTERNS:
        if found := pattern.search(line):
            values.update(zip(names, found.groups(), strict=True))


def _read_properties(properties: Mapping[str, object], values: dict[str, str]) -> None:
    """What the endpoints say wins over the log: it is what requests meet."""
    props = as_map(properties.get("/props"))
    for name, value in (
        ("build", props.get("build_info")),
        ("slots", props.get("total_slots")),
        ("ctx_per_slot", as_map(props.get("default_generation_settings")).get("n_ctx")),
        ("alias", props.get("model_alias")),
        ("quantisation", props.get("model_ftype")),
    ):
        if value is not None:
            values[name] = str(value)
    if slots := as_list(properties.get("/slots")):
        values["slots_listed"] = str(len(slots))
        values["slots_speculative"] = str(sum(bool(as_map(slot).get("speculative")) for slot in slots))


def not_honoured(requested: Mapping[str, object], values: Mapping[str, str]) -> list[str]:
    """One warning for each flag that was asked for and that the engine's own words contradict."""
    found: list[str] = []
    for flag, fact in _SHOWN_BY.items():
        if flag not in requested or fact not in values:
            continue
        wanted, got = _text(requested[flag]).lower(), values[fact].lower()
        if wanted not in _LEFT_TO_THE_ENGINE and wanted != got:
            found.append(f"--{flag} {wanted} was asked for, the engine says {fact}: {got}")
    # ggml-cpu.c compiles its polling only without OpenMP; there OMP_WAIT_POLICY and GOMP_SPINCOUNT decide
    if "OPENMP = 1" in values.get("instructions", ""):
        found += [
            f"--{flag} does nothing in this build: OpenMP runs its threads"
            for flag in ("poll", "poll-batch")
            if flag in requested
        ]
    return found


def _text(value: object) -> str:
    items = as_list(value)
    return ",".join(str(item) for item in items) if items else str(value)
