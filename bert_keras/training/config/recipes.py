"""`Pretraining`: all settings of one run, from a named recipe, a TOML file and options, and the plan of its phases.

Options override the file, the file overrides the recipe, the recipe overrides the defaults. Some settings replace
others as a group: a preset replaces sizes, a budget replaces the budget, and sequence lengths replace the phases of the
sources before them. A run with `model.start_from` uses only the objective, the precision and
`pretraining_dropout` of a recipe's model.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

import tomli_w

from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.huggingface.weight_names import get_head_rows
from bert_keras.errors import InputError
from bert_keras.pipelines.records.manifest import list_tokenizer_differences
from bert_keras.pipelines.records.settings import build_remake_command
from bert_keras.training.config.settings import settings, to_plain_values
from bert_keras.training.config.sources import merge_sources, read_sources
from bert_keras.training.config.tables import BudgetSettings, PhaseSettings, RunSettings

_SHARE_TOLERANCE = 1e-6  # shares written with a few digits need not sum to exactly 1
_SECONDS_PER_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class PhasePlan:
    """One phase with every number resolved.

    Attributes:
        records: index of the records folder, from 0.
        max_sequence_length: tokens per sequence.
        max_predictions: masked positions per sequence.
        batch_size: sequences per step.
        learning_rate: the peak.
        rewarm: whether the phase starts a new schedule.
        num_steps: optimizer steps; None for a budget in hours.
        seconds: duration; None for other budgets.
    """

    records: int
    max_sequence_length: int
    max_predictions: int
    batch_size: int
    learning_rate: float
    rewarm: bool
    num_steps: int | None
    seconds: float | None


@settings
class Pretraining(RunSettings):
    """All settings of one pretraining run; `tables` documents each of them.

    Args:
        recipe: the name of the recipe that the run is based on, or None.
        source: where the numbers of the recipe come from, and what of the source is not implemented.
        seed: seed of weights, masks, order and dropout.
        model, records, batches, optimizer, budget, evaluation, speed: one table each, see `tables`.
        phases: parts of the budget; empty = one phase on the first records folder.

    Raises:
        InputError: settings are invalid or do not fit together; the message lists all of them.

    Example:
        >>> run = Pretraining.resolve(recipe="bert", overrides={"model.preset": "mini", "budget.steps": 5000})
        >>> run.model.preset, run.optimizer.warmup_ratio, [plan.num_steps for plan in run.plan()]
        ('mini', 0.01, [4500, 500])
    """

    @classmethod
    def resolve(
        cls,
        file: str | os.PathLike | None = None,
        recipe: str | None = None,
        overrides: Mapping[str, object] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> "Pretraining":
        """Merge the sources of a run's settings.

        Args:
            file: a TOML file, or None.
            recipe: one of `RECIPES`; it takes precedence over the recipe that the file names.
            overrides: values by dotted keys ("optimizer.learning_rate"), such as options; None = not given.
            defaults: values by dotted keys that every other source overrides, such as those of `infer_settings`.

        Raises:
            InputError: the file cannot be read; or keys are unknown, values are wrong, or settings do not fit together:
                the message lists all problems, each with its source and key.
        """
        sources = read_sources(file, recipe, overrides or {}, defaults or {})
        values = merge_sources(sources)
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{' + '.join(name for name, _ in sources)}: {error}") from error

    def to_toml(self) -> str:
        """Return every setting as TOML; `resolve` with that file returns an equal run."""
        return tomli_w.dumps(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """Return every setting, in nested tables of plain values."""
        return to_plain_values(self)

    def plan(self, num_records: Sequence[int] = ()) -> list[PhasePlan]:
        """Compute the steps or seconds of each phase.

        Args:
            num_records: training records in each folder; required for a budget in epochs.

        Raises:
            InputError: a phase would have no step; or the budget is in epochs and `num_records` is missing.
        """
        phases, hours = self.phases or [PhaseSettings()], self.budget.hours
        sizes = [phase.batch_size or self.batches.batch_size for phase in phases]
        steps = _compute_steps(phases, sizes, self.budget, num_records)
        plans = []
        for phase, size, num_steps in zip(phases, sizes, steps, strict=True):
            length = self.records.max_sequence_lengths[phase.records]
            plans.append(
                PhasePlan(
                    records=phase.records,
                    max_sequence_length=length,
                    max_predictions=self.batches.num_predictions(length),
                    batch_size=size,
                    learning_rate=phase.learning_rate or self.optimizer.learning_rate,
                    rewarm=phase.rewarm or phase.learning_rate is not None,
                    num_steps=num_steps,
                    seconds=None if hours is None else hours * _SECONDS_PER_HOUR * phase.share,
                )
            )
        return plans

    def check_records(self, manifests: Sequence[Mapping[str, object]], folders: Sequence[str]) -> None:
        """Check that there is one records folder for each length, made with the run's settings and one tokenizer.

        Raises:
            InputError: they do not match the run; the message has the `make-records` commands that they need.
        """
        lengths = self.records.max_sequence_lengths
        if len(folders) != len(lengths):
            commands = "  and  ".join(self.records.command(index) for index in range(len(lengths)))
            raise InputError(
                f"{len(folders)} records folders were given, and the run has records of {len(lengths)} lengths "
                f"{list(lengths)}; expected one folder for each length, made with  {commands}  or other lengths: "
                "--set records.max_sequence_lengths=..."
            )
        for index, (manifest, folder) in enumerate(zip(manifests, folders, strict=True)):
            self.records.check_manifest(manifest, index, folder)
            if differing := list_tokenizer_differences(manifest, manifests[0], here=f"in {folders[0]}"):
                raise InputError(
                    f"{folder} was made with another tokenizer ({'; '.join(differing)}); expected the same tokenizer "
                    "in all phases: make it again with  "
                    f"{build_remake_command(manifest, folder, vocabulary=folders[0])}"
                )

    def schedules(self, num_records: Sequence[int] = ()) -> list[tuple[float, float]]:
        """Return (peak learning rate, steps or seconds) of each learning-rate schedule; arguments as for `plan`."""
        return join_schedules(self.plan(num_records))

    def num_steps(self, num_records: Sequence[int] = ()) -> int | None:
        """Return the optimizer steps of the run, or None for a budget in hours; arguments as for `plan`."""
        steps = [plan.num_steps for plan in self.plan(num_records)]
        return None if None in steps else sum(steps)

    def conflicts(self) -> Iterator[str]:
        """Yield a message for each group of settings that do not fit together."""
        yield from self._model_conflicts()
        yield from self._number_conflicts()
        yield from self._phase_conflicts()

    def _model_conflicts(self) -> Iterator[str]:
        objective = self.model.head.objective
        if objective.reads_pairs and self.records.sentence_objective == "none":
            yield (
                f"model.objective {objective.name!r} needs sentence pairs, and records.sentence_objective is 'none': "
                "change either"
            )
        if self.model.start_from is not None:  # checked by `continued_pretraining.resolve_start`
            return
        try:
            # any vocabulary size will do: that of the records is not known yet, and the other sizes do not depend on it
            config = self.model.bert_config(30522, max(self.records.max_sequence_lengths))
            get_head_rows(get_architecture(config.model_type), self.model.head.model_name)
            if objective.has_generator:
                self.model.generator_config(config)
        except InputError as error:
            yield f"[model] {error}"

    def _number_conflicts(self) -> Iterator[str]:
        budget, replace_rates = to_plain_values(self.budget), self.batches.replace_rates
        if len(budget) != 1:
            yield f"[budget] sets {', '.join(budget) or 'nothing'}; expected exactly one of steps, epochs, hours"
        if sum(replace_rates) > 1 + _SHARE_TOLERANCE:
            yield f"batches.replace_rates {list(replace_rates)} sum to more than 1; expected at most 1: lower them"
        if self.records.keep_documents_apart and self.records.sentence_objective != "none":
            yield "records.keep_documents_apart requires sentence_objective 'none': leave it out"
        if self.optimizer.schedule == "inverse_sqrt" and not self.optimizer.warmup_ratio:
            yield "optimizer.schedule inverse_sqrt needs a warm-up: set optimizer.warmup_ratio above 0"
        micro_batches = self.batches.accumulation_steps
        for size in {self.batches.batch_size, *(phase.batch_size for phase in self.phases if phase.batch_size)}:
            if size % micro_batches:
                yield f"batch_size {size} is no multiple of batches.accumulation_steps {micro_batches}: change either"

    def _phase_conflicts(self) -> Iterator[str]:
        total, num_folders = sum(phase.share for phase in self.phases), len(self.records.max_sequence_lengths)
        if self.phases and abs(total - 1) > _SHARE_TOLERANCE:
            yield f"the shares of [[phases]] sum to {total:g}; expected 1"
        for number, phase in enumerate(self.phases, 1):
            if phase.records >= num_folders:
                yield (
                    f"phase {number} uses records {phase.records}, counted from 0, and records.max_sequence_lengths "
                    f"has {num_folders}: add its length, or remove the phase"
                )


def join_schedules(plans: Sequence[PhasePlan]) -> list[tuple[float, float]]:
    """Return (peak learning rate, steps or seconds) of each schedule; a phase without `rewarm` extends it."""
    schedules: list[tuple[float, float]] = []
    for plan in plans:
        amount = plan.seconds if plan.num_steps is None else plan.num_steps
        if schedules and not plan.rewarm:
            peak, before = schedules.pop()
            schedules.append((peak, before + amount))
        else:
            schedules.append((plan.learning_rate, amount))
    return schedules


def _compute_steps(
    phases: Sequence[PhaseSettings], batch_sizes: Sequence[int], budget: BudgetSettings, num_records: Sequence[int]
) -> list[int | None]:
    if budget.hours is not None:
        return [None] * len(phases)
    if budget.steps is not None:
        ends = [round(budget.steps * share) for share in itertools.accumulate(phase.share for phase in phases)]
        steps = [end - begin for begin, end in itertools.pairwise([0, *ends])]
        source = f"budget.steps {budget.steps}"
    else:
        needed = 1 + max(phase.records for phase in phases)
        if len(num_records) < needed:
            raise InputError(
                f"budget.epochs is {budget.epochs:g}, and num_records has {len(num_records)} items; expected {needed}, "
                "one for each records folder: add them, or set the budget in steps or hours"
            )
        counts = [num_records[phase.records] for phase in phases]
        steps = [
            int(budget.epochs * phase.share * count / size)
            for phase, size, count in zip(phases, batch_sizes, counts, strict=True)
        ]
        source = f"budget.epochs {budget.epochs:g} of {counts} records"
    if 0 in steps:
        raise InputError(
            f"{source} gives the phases {steps} steps of {list(batch_sizes)} sequences; expected one or more in each: "
            "raise the budget or lower batches.batch_size"
        )
    return steps
