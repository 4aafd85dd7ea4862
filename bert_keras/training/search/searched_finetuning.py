"""What `bk.finetune(search=N)` prepares: ranges for the model and the data, and trials recorded by Optuna."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.checks import check_integer, format_names
from bert_keras.errors import InputError
from bert_keras.extras import check_installed
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.publishing import get_companion_folder
from bert_keras.training.config.finetuning_settings import LORA_LEARNING_RATE, FineTuning

if TYPE_CHECKING:
    import optuna

# The learning rate that suits a model falls with its width: 1e-4 is the upper end for BERT-Base (768), 2e-3 for tiny
# (128). A power law through these two points gives the models between them.
_BASE_DIM, _BASE_RATE, _EXPONENT = 768, 1e-4, 1.67
_RATE_SPAN = 20  # highest learning rate divided by the lowest
_LORA_SPAN = 4  # with adapters, the highest learning rate divided by the default
_BATCH_SIZES = (16, 32, 64)
_MIN_STEPS_PER_EPOCH = 4  # a batch size that leaves fewer steps in an epoch is not tried
_CHOICES = {"warmup_ratio": (0.0, 0.06, 0.1, 0.2), "weight_decay": (0.0, 0.01, 0.1), "layer_decay": (0.8, 0.9, 1.0)}
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


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for the settings of a fine-tuning.

    Attributes:
        num_trials: number of trials.
        fixed: names of the settings that the user gave, which stay as they are.
        on_trial: function that is called with the result of each trial.
    """

    num_trials: int
    fixed: Collection[str] = ()
    on_trial: Callable[[TrialResult], None] = lambda result: None

    def __post_init__(self) -> None:
        check_integer("search", self.num_trials, 1)
        check_search_installed()


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """The settings that a search varies.

    Attributes:
        base: the settings from which every trial starts.
        rates: the lowest and the highest learning rate; None = it stays that of `base`.
        choices: the values of the other settings that are varied, keyed by name.
    """

    base: FineTuning
    rates: tuple[float, float] | None
    choices: Mapping[str, tuple]

    @property
    def varied(self) -> list[str]:
        """The names of the settings that differ between trials."""
        return [*self.choices, *([] if self.rates is None else ["learning_rate"])]

    def suggest(self, trial: optuna.Trial) -> FineTuning:
        """Return the settings of a trial."""
        values = {name: trial.suggest_categorical(name, choices) for name, choices in self.choices.items()}
        if self.rates is not None:
            low, high = self.rates
            values["learning_rate"] = trial.suggest_float("learning_rate", low, high, log=True)
        return dataclasses.replace(self.base, **values)

    def start(self) -> dict[str, object]:
        """Return the values of the first trial: those of `base` where they are in range.

        A learning rate that is out of range is replaced by the geometric middle of the range.
        """
        given = {name: getattr(self.base, name) for name in self.choices}
        values = {name: value for name, value in given.items() if value in self.choices[name]}
        if self.rates is not None:
            low, high = self.rates
            is_in_range = low <= self.base.learning_rate <= high
            values["learning_rate"] = self.base.learning_rate if is_in_range else (low * high) ** 0.5
        return values

    def describe(self) -> str:
        """Return the ranges in words, to print."""
        rates = [] if self.rates is None else [f"learning_rate {self.rates[0]:.2g} to {self.rates[1]:.2g}"]
        return ", ".join(rates + [f"{name} {' '.join(map(str, values))}" for name, values in self.choices.items()])


def make_search_space(
    base: FineTuning, *, hidden_dim: int, num_sequences: int, fixed: Collection[str], batch_multiple: int = 1
) -> SearchSpace:
    """Return the ranges for a model and an amount of training data.

    Args:
        base: the settings of all trials, of which some are varied.
        hidden_dim: width of the model, which decides the range of the learning rate.
        num_sequences: number of training examples; small data is not trained with large batches.
        fixed: names of settings that stay as they are, because the user gave them.
        batch_multiple: a batch must be divisible by it: the replicas times the micro-batches.

    Raises:
        InputError: no setting is left to vary.

    Example:
        >>> space = make_search_space(FineTuning(), hidden_dim=128, num_sequences=900, fixed=["layer_decay"])
        >>> space.describe()
        'learning_rate 0.0001 to 0.002, batch_size 16 32 64, warmup_ratio 0.0 0.06 0.1 0.2, weight_decay 0.0 0.01 0.1'
    """
    high = _BASE_RATE * (_BASE_DIM / hidden_dim) ** _EXPONENT
    high = min(float(f"{high:.1g}"), 2e-3)  # one digit: nobody needs 6.2513e-4
    if base.lora_rank is not None:
        high = _LORA_SPAN * LORA_LEARNING_RATE
    sizes = tuple(
        size for size in _BATCH_SIZES if size * _MIN_STEPS_PER_EPOCH <= num_sequences and not size % batch_multiple
    )
    choices = {"batch_size": sizes} if len(sizes) > 1 else {}
    choices = {name: values for name, values in {**choices, **_CHOICES}.items() if name not in fixed}
    rates = None if "learning_rate" in fixed else (high / _RATE_SPAN, high)
    if rates is None and not choices:
        raise InputError(
            f"the search has nothing to vary, because {format_names(sorted(fixed))} are given; expected one or more of "
            f"learning_rate, batch_size, {', '.join(_CHOICES)} to be left out: leave them out, or search without them"
        )
    return SearchSpace(base, rates, choices)


def get_search_folder(out: str | os.PathLike) -> pathlib.Path:
    """Return the folder next to `out` for the trials of an unfinished search: `.OUT.search`."""
    return get_companion_folder(out, "search").absolute()


def check_no_trials(out: str | os.PathLike, *, has_search: bool, resume: bool, overwrite: bool, spell: Spell) -> None:
    """Check that the trials of an interrupted search are resumed or overwritten, not forgotten.

    Raises:
        InputError: there are trials, and neither `resume` nor `overwrite` is set; or `resume` is set for a search, and
            what was interrupted is a training without one, or the other way round.
    """
    from bert_keras.training.backups import get_backup_folder  # loads safetensors, which the command line need not

    folder, backups = get_search_folder(out), get_backup_folder(out)
    if has_trials(folder) and not resume and not overwrite:
        raise InputError(
            f"a search for {out} was interrupted, and its trials are in {folder}: continue with {spell('search')} and "
            f"{spell('resume', True)}, or start over with {spell('overwrite', True)}"
        )
    if resume and not has_search and has_trials(folder):
        raise InputError(
            f"what was interrupted for {out} is a search, and its trials are in {folder}: continue with "
            f"{spell('search')} and {spell('resume', True)}, or start over with {spell('overwrite', True)} alone"
        )
    if resume and has_search and backups.steps():
        raise InputError(
            f"what was interrupted for {out} is a training without a search, and its backup is in {backups.path}: "
            f"continue without {spell('search')}, or start over with {spell('overwrite', True)} alone"
        )


def describe_winner(trials: Collection[TrialResult], settings: FineTuning, main_score: str) -> dict[str, object]:
    """Return what the model card says about a search: how it was done, and the settings that won."""
    names = next(iter(trials)).settings
    return {
        "search": f"the best of {len(trials)} trials by {main_score} on the held-out examples, which therefore is "
        "higher than on new examples",
        **{name.replace("_", " "): format_setting(getattr(settings, name)) for name in names},
    }


def remove_trials(folder: pathlib.Path | None) -> None:
    """Remove the folder of a finished or abandoned search, if there is one."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
