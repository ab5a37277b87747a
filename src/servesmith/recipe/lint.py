"""What can be said against a case before anything is started."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from servesmith.errors import Problem
from servesmith.recipe.levers import applies, builtin_levers, flag_id
from servesmith.recipe.model import Case, Recipe

PACKAGE = "package:"
"""Starts a model that a Python package carries: package:NAME/FILE."""


def check(case: Case, known_flags: frozenset[str] | None) -> tuple[Problem, ...]:
    """Everything found, each with its remedy. `known_flags`: what the engine honours; None if that is not known."""
    recipe = case.recipe
    found = [*_flags(recipe, known_flags), *_twice(recipe), *model_problems(recipe), *_files(recipe)]
    return (*found, *_image(recipe), *_lossy(case), *_prefixes(case), *_data(case), *_schedule(case))


def _flags(recipe: Recipe, known: frozenset[str] | None) -> Iterator[Problem]:
    if known is None:
        return
    for name in recipe.flags:
        if {name, name.lstrip("-"), name.replace("_", "-"), flag_id(recipe.engine, name).name} & known:
            continue
        close = get_close_matches(name, known, n=1, cutoff=0.6)
        remedy = f"Did you mean `{close[0]}`?" if close else "Delete it, or use an engine build that has it."
        yield Problem(f"{recipe.engine} has no flag {name!r}.", remedy, field=f"flags.{name}")


def _twice(recipe: Recipe) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in recipe.flags:
        meant = flag_id(recipe.engine, name).name
        if meant in first:
            message = f"Says again what {first[meant]!r} says."
            yield Problem(message, "Keep one of the two.", field=f"flags.{name}")
        first.setdefault(meant, name)


def model_problems(recipe: Recipe) -> Iterator[Problem]:
    """No model, or one that is not on this machine."""
    if recipe.engine in ("endpoint", "sim"):
        return
    model = recipe.model
    if not model and "config" not in recipe.flags:
        yield Problem("No model is named.", "Write `model:` with a path or a hub id.", field="model")
    elif model.startswith(PACKAGE):
        package, _, file = model.removeprefix(PACKAGE).partition("/")
        if not file or not package.isidentifier():
            yield Problem(f"{model!r} is not of the form package:NAME/FILE.", "Name both.", field="model")
        elif not _is_installed(package):
            yield Problem(f"The Python package {package} is not installed.", f"pip install {package}", field="model")
    elif not recipe.image and _is_path(model) and not _exists(model):
        yield Problem(f"There is no {model} on this machine.", "Correct the path, or fetch the model.", field="model")


def _is_path(model: str) -> bool:
    return model.startswith(("/", "./", "../", "~")) or model.endswith(".gguf")


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, no home
        return False


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module that is running and has no file, such as __main__
        return False


def _files(recipe: Recipe) -> Iterator[Problem]:
    for index, overlay in enumerate(recipe.overlays):
        if not _exists(overlay.source):
            yield Problem(f"There is no {overlay.source}.", "Correct the path.", field=f"overlays.{index}.source")


def _image(recipe: Recipe) -> Iterator[Problem]:
    if recipe.image and not re.search(r"@sha256:[0-9a-f]{64}$", recipe.image):
        message = "A tag can name another image tomorrow."
        yield Problem(message, "Pin it: `docker pull`, then write NAME@sha256:...", field="image")


def _lossy(case: Case) -> Iterator[Problem]:
    """Settings that a lossy lever of the library would make: the baseline has that loss already."""
    for lever in builtin_levers(case.recipe.engine):
        if lever.risk != "lossy":
            continue
        if applies(lever, case.recipe, case.load, "", "", 0) == "already so":
            message = f"The recipe has what the lossy lever {lever.name} sets, so answers are compared with lossy ones."
            yield Problem(message, f"Delete it if the loss is not wanted: {', '.join(lever.set)}.", field="flags")


def _prefixes(case: Case) -> Iterator[Problem]:
    workload = case.workload
    shared = workload.prefixes.tokens if workload.prefixes else workload.shared_prefix_tokens
    fixed = not (workload.prompt_lengths or workload.inferencex or workload.dataset)
    if fixed and shared >= workload.prompt_tokens:
        message = "The shared prefix is as long as the whole prompt, so all prompts would be one."
        field = "workload.prefixes.tokens" if workload.prefixes else "workload.shared_prefix_tokens"
        yield Problem(message, "Make it shorter than prompt_tokens.", field=field)


def _data(case: Case) -> Iterator[Problem]:
    """Files that the workload and the load are read from."""
    workload, arrivals = case.workload, case.load.arrivals
    files = {
        "workload.prompt_lengths.trace": workload.prompt_lengths.trace if workload.prompt_lengths else "",
        "workload.output_lengths.trace": workload.output_lengths.trace if workload.output_lengths else "",
        "workload.dataset.path": workload.dataset.path if workload.dataset else "",
        "load.arrivals.trace": arrivals.trace if arrivals else "",
    }
    for field, path in files.items():
        if path and not _exists(path):
            yield Problem(f"There is no {path}.", "Correct the path, seen from where servesmith is run.", field=field)


def _schedule(case: Case) -> Iterator[Problem]:
    """What the load would leave out, or do otherwise than it seems."""
    arrivals, workload, load = case.load.arrivals, case.workload, case.load
    lasts = load.warmup_s + load.window_s
    steps = sum(step.seconds for step in arrivals.steps) if arrivals else 0.0
    if steps > lasts:
        message = f"The steps last {steps:g} s, warm-up and window {lasts:g} s: what is due later is not sent."
        yield Problem(message, f"Set load.window_s to {steps - load.warmup_s:g}.", field="load.arrivals.steps")
    own = ("prompt_lengths", "output_lengths", "prefixes", "sessions", "dataset", "inferencex")
    for name in own if arrivals and arrivals.process == "trace" else ():
        if getattr(workload, name):
            message = "A trace that is replayed has lengths and prefixes of its own, so this says nothing."
            yield Problem(message, "Delete it, or use another process.", field=f"workload.{name}")
    if workload.inferencex and not arrivals and workload.inferencex.prompts != 10 * load.streams:
        message = (
            f"InferenceX sends 10 prompts a stream, which are {10 * load.streams}, and their number changes lengths."
        )
        yield Problem(message, f"Set it to {10 * load.streams}.", field="workload.inferencex.prompts")
