"""The embedded engine: llama.cpp's own server out of the xllamacpp wheel, driven by llama-server's flag names.

    python -m servesmith.engine.llamaserver --model FILE --port N [llama-server flags]

Runs as a child process until SIGTERM. It starts from llama-server's own defaults (tools/server/server.cpp: without
`--parallel`, 4 slots over one unified KV buffer) and prints one line `servesmith-resolved {JSON}` with what was asked
for and every resolved value. Exit codes: 2 a flag is refused, 3 xllamacpp is missing, 1 the engine did not start.
"""

import importlib
import json
import os
import signal
import sys
from enum import Enum
from functools import reduce
from typing import Any, TypeAlias, cast

from servesmith.engine.llamaflags import FLAGS, Chosen, Flag, FlagError, parse
from servesmith.units import Json

Native: TypeAlias = Any
"""Something of xllamacpp, which has no types, or a value that goes there."""
RESOLVED = "servesmith-resolved "
AUTO_SLOTS = 4
UINT32_MAX = 2**32 - 1


def main(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    try:
        chosen = parse(argv)
    except FlagError as error:
        return _complain(f"{error}", 2)
    if "model" not in chosen:
        return _complain("invalid value of --model: it is needed", 2)
    try:
        llama: Native = importlib.import_module("xllamacpp")
    except ImportError as error:
        return _complain(f"the embedded engine is missing ({error}): pip install 'servesmith[local]'", 3)
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # before the engine's threads, which inherit it
    params = build(chosen, llama)
    sys.stdout.write(f"{RESOLVED}{json.dumps(describe(params, chosen, llama))}\n")
    sys.stdout.flush()
    try:
        _server = llama.Server(params)  # it serves for as long as it is held
    except RuntimeError as error:
        return _complain(f"{error}", 1)
    signal.sigwait(stops)
    sys.stdout.flush()
    os._exit(0)  # the engine would first wait about a second for its open streams, and keeps nothing at its end


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code


def build(chosen: Chosen, llama: Native) -> Native:
    """CommonParams as llama-server would have after reading these flags."""
    params = llama.CommonParams()
    params.endpoint_metrics = True
    params.n_parallel = -1
    by_name = {flag.name: flag for flag in FLAGS}
    marks = 0
    for name, value in chosen.items():
        flag = by_name[name]
        for target in flag.target.split():
            _set(params, target, _native(flag, value, llama))
        if flag.mark:
            marks |= int(getattr(llama.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{flag.mark}"))
    params.sampling.user_sampling_config |= marks
    _resolve(params, chosen)
    return params


def _resolve(params: Native, chosen: Chosen) -> None:
    """What llama-server's main does after parsing."""
    if params.n_parallel < 0:
        params.n_parallel, params.kv_unified = AUTO_SLOTS, True
    if chosen.get("ctx-size") == 0:
        params.fit_params_min_ctx = UINT32_MAX  # asked for the whole context: it must not be shrunk to fit
    for name, cpu in (("threads", params.cpuparams), ("threads-batch", params.cpuparams_batch)):
        if name in chosen and cpu.n_threads <= 0:
            cpu.n_threads = os.cpu_count()
    if not params.model_alias:
        params.model_alias = {os.path.basename(params.model.path)}  # noqa: PTH119 (starts sooner without pathlib)


def _native(flag: Flag, value: Json, llama: Native) -> Native:
    """The value as the binding wants it."""
    if flag.enum:
        members = getattr(llama, flag.enum)
        found = [getattr(members, f"{flag.enum}_{word}".upper().replace("-", "_")) for word in _several(value)]
        return found if isinstance(value, list) else found[0]
    if flag.name == "alias":
        return set(_several(value))
    if flag.name == "seed" and isinstance(value, int):
        return value & UINT32_MAX
    return value


def _several(value: Json) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _set(params: Native, target: str, value: Native) -> None:
    *path, last = target.split(".")
    owner = reduce(getattr, path, params)
    if last == "cpumask":
        low, high = value
        owner.mask_valid = True
        value = [low <= cpu <= high for cpu in range(len(owner.cpumask))]
    setattr(owner, last, value)


def describe(params: Native, chosen: Chosen, llama: Native) -> dict[str, Json]:
    """What was asked for and every resolved value, by canonical flag name. Keys of access are masked."""
    resolved = {
        flag.name: _plain(reduce(getattr, flag.target.split()[0].split("."), params), flag)
        for flag in FLAGS
        if flag.read is not None or isinstance(flag.fixed, bool)
    }
    requested: dict[str, Json] = dict(chosen)
    for values in (resolved, requested):
        if values.get("api-key"):
            values["api-key"] = "***"
    return {"version": str(llama.__version__), "requested": requested, "resolved": resolved}


def _plain(value: Native, flag: Flag) -> Json:
    if isinstance(value, (list, set)):
        items = sorted(cast("set[str]", value)) if isinstance(value, set) else cast("list[Native]", value)
        if flag.target.endswith("cpumask"):
            return [index for index, used in enumerate(items) if used]
        return [_plain(item, flag) for item in items]
    if flag.read is None:
        return value == flag.fixed
    if isinstance(value, Enum) and not flag.enum:
        return int(value.value)
    if isinstance(value, Enum):
        return (
            value.name.removeprefix(f"{flag.enum}_".upper()).lower().replace("_", "-" if "spec" in flag.name else "_")
        )
    return cast("Json", value) if isinstance(value, (bool, int, float, str, dict)) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
