"""Which levers are worth a trial: those that apply here, findings first, then by the bound on their gain."""

from collections.abc import Sequence

from servesmith.recipe.model import Lever, Recipe
from servesmith.store.events import Found, Proposed
from servesmith.tune.findings import Finding
from servesmith.tune.place import Place
from servesmith.tune.run import Run
from servesmith.tune.settings import Settings


def propose(
    run: Run, recipe: Recipe, levers: Sequence[Lever], place: Place, found: Sequence[Finding]
) -> tuple[Lever, ...]:
    """State findings and proposal; give the levers to try. Bounds are assumed, so none is refused for its bound."""
    pointed = {flag for finding in found for flag in finding.flags}
    refused: dict[str, str] = {}
    fit: list[Lever] = []
    for lever in levers:
        reason = place.refuses(lever, recipe) or _lossy(lever, run.settings)
        if reason:
            refused[lever.name] = reason
        else:
            fit.append(lever)
    fit.sort(key=lambda lever: (not _speaks_for(lever, pointed), -lever.bound, lever.name))
    for finding in found:
        named = tuple(lever.name for lever in fit if _speaks_for(lever, set(finding.flags)))
        run.record(Found(finding=finding.text, levers=named))
    run.record(Proposed(levers=tuple(lever.name for lever in fit), refused=refused))
    return tuple(fit)


def _lossy(lever: Lever, settings: Settings) -> str:
    if lever.risk != "lossy" or lever.name in settings.allow_lossy.split(","):
        return ""
    return f"lossy, and only tried if you say --allow-lossy {lever.name}"


def _speaks_for(lever: Lever, flags: set[str]) -> bool:
    return any(path.removeprefix("flags.").strip('"') in flags for path in lever.set)
