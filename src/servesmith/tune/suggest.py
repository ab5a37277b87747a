"""The optuna door: where the next numbers come from."""

import math
from collections.abc import Mapping

import msgspec

from servesmith.recipe.model import Span


class Suggestion(msgspec.Struct, frozen=True):
    """Values by dotted path, and what they scored (higher is better)."""

    values: dict[str, int]
    score: float = -math.inf


class Suggester:
    """Ask and tell over spans of whole numbers: Optuna's TPE, seeded, starting from the values in force."""

    def __init__(self, spans: Mapping[str, Span], seed: int, start: Mapping[str, int]) -> None:
        import optuna  # 0.3 s to import, and only refining needs it

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._spans = dict(spans)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=4, multivariate=True)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        if start:
            self._study.enqueue_trial(dict(start))
        self._open: optuna.Trial | None = None
        self._told: list[Suggestion] = []

    def ask(self) -> dict[str, int]:
        """The next values to try."""
        trial = self._study.ask()
        self._open = trial
        return {path: trial.suggest_int(path, span.low, span.high, log=span.log) for path, span in self._spans.items()}

    def tell(self, values: dict[str, int], score: float | None) -> None:
        """What they scored; None: they could not be measured."""
        import optuna

        assert self._open is not None, "tell follows ask"
        if score is None:
            self._study.tell(self._open, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._open, score)
            self._told.append(Suggestion(values, score))

    def best(self) -> Suggestion | None:
        """The best that was told; None if nothing could be measured."""
        return max(self._told, key=lambda suggestion: suggestion.score, default=None)
