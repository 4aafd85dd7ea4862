"""`TrialLog`: the trials of a search, recorded on disk by Optuna, so that an interrupted search can be resumed."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.errors import InputError
from bert_keras.extras import check_installed
from bert_keras.pipelines.readers.option_spelling import Spell

if TYPE_CHECKING:
    import optuna

COMPLETE, STOPPED, DIVERGED = "complete", "stopped early", "diverged"
RANGES = "the ranges"  # their name in the identity of a search
_JOURNAL = "trials.journal"
_REDUCTION = 2  # half of the trials continue after epoch 1, half of those after epoch 2, then 4, 8, ...


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """The result of one trial.

    Attributes:
        number: number of the trial, from 1.
        outcome: "complete", "stopped early" (its score was in the lower half after some epoch) or "diverged" (its loss
            or its score was not finite).
        score: the main score of its best epoch; None if it diverged.
        num_epochs: the epochs that it was trained for.
        seconds: the time that it took.
        settings: the settings that the search varied, keyed by name.
    """

    number: int
    outcome: str
    score: float | None
    num_epochs: int
    seconds: float
    settings: Mapping[str, object]

    def describe(self) -> str:
        """Return the trial in one line, without its score: "learning_rate 0.0003, batch_size 32"."""
        return ", ".join(f"{name} {format_setting(value)}" for name, value in self.settings.items())


class TrialLog:
    """The study of a search: asks for the next settings and records what became of them.

    Args:
        folder: where the trials are recorded; None = in memory.
        seed: seed of the suggestions.

    Raises:
        MissingExtraError: Optuna is not installed.
    """

    def __init__(self, folder: pathlib.Path | None, seed: int):
        check_search_installed()
        import optuna

        self._seed = seed
        if folder is None:
            storage = optuna.storages.InMemoryStorage()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            backend = optuna.storages.journal.JournalFileBackend(str(folder / _JOURNAL))
            storage = optuna.storages.JournalStorage(backend)
        with quiet_optuna():
            self._study = optuna.create_study(
                storage=storage,
                study_name="finetune",
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=_REDUCTION),
            )

    def check_same_search(self, identity: Mapping[str, object], *, allow_changes: bool, spell: Spell) -> None:
        """Check that the recorded trials are of the same data and settings, and record these.

        Raises:
            InputError: they are of another search, and `allow_changes` is False or the ranges differ.
        """
        identity = json.loads(json.dumps(identity))
        before = self._study.user_attrs.get("identity", identity)
        changed = sorted(key for key in {*before, *identity} if before.get(key) != identity.get(key))
        if RANGES in changed:
            raise InputError(
                "the trials on disk are of another search (the ranges changed, which depend on the given settings, the "
                "number of examples and the devices); expected the same ranges: search as it was started, or start "
                f"over with {spell('overwrite', True)}"
            )
        if changed and not allow_changes:
            raise InputError(
                f"the trials on disk are of another search ({', '.join(changed)} changed): search with the settings "
                f"and data that it was started with, accept the changes with {spell('allow_changes', True)}, or "
                f"start over with {spell('overwrite', True)}"
            )
        self._study.set_user_attr("identity", identity)

    def start(self, first: Mapping[str, object]) -> None:
        """Prepare the next trial: the one that was interrupted, or `first` if there is none yet."""
        import optuna

        for trial in self._study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if "result" not in trial.user_attrs:  # stopped before its result was recorded
                self._study.enqueue_trial(trial.params)
        if not self._study.trials:
            self._study.enqueue_trial(dict(first))

    def ask(self) -> optuna.Trial:
        """Return the next trial. What it suggests depends on the seed and on the trials before it alone."""
        import optuna

        # a sampler of its own for each trial: one for all would repeat its suggestions when the search is resumed
        self._study.sampler = optuna.samplers.TPESampler(seed=(self._seed * 10_007 + len(self.results())) % 2**32)
        return self._study.ask()

    def tell(self, trial: optuna.Trial, result: TrialResult) -> None:
        """Record the result of a trial."""
        import optuna

        states = optuna.trial.TrialState
        state = {COMPLETE: states.COMPLETE, STOPPED: states.PRUNED, DIVERGED: states.FAIL}[result.outcome]
        trial.set_user_attr("result", dataclasses.asdict(result))
        with quiet_optuna():
            self._study.tell(trial, result.score if result.outcome == COMPLETE else None, state=state)

    def results(self) -> list[TrialResult]:
        """Return the results so far, in the order of the trials."""
        recorded = [trial.user_attrs["result"] for trial in self._study.trials if "result" in trial.user_attrs]
        return [TrialResult(**result) for result in recorded]


def check_search_installed() -> None:
    """Raise `MissingExtraError` unless Optuna is installed."""
    check_installed("a search for settings", "optuna", "search")


def has_trials(folder: pathlib.Path) -> bool:
    """Whether a folder has the trials of a search."""
    return (folder / _JOURNAL).is_file()


def find_best(results: Sequence[TrialResult]) -> TrialResult | None:
    """Return the trial with the highest score, the first of them if several have it; None if all diverged."""
    scored = [result for result in results if result.score is not None]
    return max(scored, key=lambda result: result.score, default=None)


def format_setting(value: object) -> str:
    """Return a setting as it is shown: numbers with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def format_trials(
    results: Sequence[TrialResult], score_name: str, show: Callable[[object], object] = format_setting
) -> tuple[list[str], list[list[object]]]:
    """Return the header and the rows of the table of trials, the best first, those that diverged last.

    Args:
        results: the trials.
        score_name: the heading of the scores.
        show: function that formats a setting.
    """
    names = list(results[0].settings) if results else []
    ranked = sorted(results, key=lambda result: (result.score is None, -(result.score or 0.0), result.number))
    rows = [
        [result.number, result.score, result.outcome, result.num_epochs, round(result.seconds, 1)]
        + [show(result.settings[name]) for name in names]
        for result in ranked
    ]
    return ["trial", score_name, "outcome", "epochs", "seconds", *names], rows


def write_csv(results: Sequence[TrialResult], score_name: str) -> str:
    """Return the table of trials as CSV, with all digits of the settings."""
    text = io.StringIO()
    header, rows = format_trials(results, score_name, show=lambda value: value)
    csv.writer(text, lineterminator="\n").writerows([header, *rows])  # None is an empty cell
    return text.getvalue()


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's own log lines inside the block: this package prints the trials itself."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
