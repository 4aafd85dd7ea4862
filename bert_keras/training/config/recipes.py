"""`Pretraining`: all settings of one run, from a named recipe, a TOML file and options. No TensorFlow here.

Options override the file, the file overrides the recipe, the recipe overrides the defaults. Some settings replace
others as a group: a preset replaces sizes, a budget replaces the budget, and sequence lengths replace the phases of the
sources before them. A run with `model.start_from` uses only the objective, the precision and
`pretraining_dropout` of a recipe's model.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import tomli_w

from bert_keras.errors import InputError
from bert_keras.pipelines.records.manifest import list_tokenizer_differences
from bert_keras.pipelines.records.settings import build_remake_command
from bert_keras.training.config.phases import PhasePlan, join_schedules, plan_phases
from bert_keras.training.config.settings import settings, to_plain_values
from bert_keras.training.config.sources import (
    get_recipe_path,
    infer_settings,
    merge_sources,
    parse_assignments,
    read_sources,
)
from bert_keras.training.config.tables import RECIPES, RunSettings

__all__ = ["RECIPES", "PhasePlan", "Pretraining", "get_recipe_path", "infer_settings", "parse_assignments"]

_SHARE_TOLERANCE = 1e-6  # shares written with a few digits need not sum to exactly 1


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
        return plan_phases(self, num_records)

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
        if self.model.objective == "bert" and self.records.sentence_objective == "none":
            yield "model.objective 'bert' needs sentence pairs, and records.sentence_objective is 'none': change either"
        if self.model.start_from is not None:  # checked by `continued_pretraining.resolve_start`
            return
        try:
            # any vocabulary size will do: that of the records is not known yet, and the other sizes do not depend on it
            config = self.model.bert_config(30522, max(self.records.max_sequence_lengths))
            if self.model.objective == "electra":
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
