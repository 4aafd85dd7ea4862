"""`Pretraining`: all settings of one run, from a named recipe, a TOML file and flags. No TensorFlow here.

Flags override the file, the file overrides the recipe, the recipe overrides the defaults. A run that starts from a
checkpoint takes nothing of a recipe's model but its objective and precision. Who names a preset takes back the sizes
said before, who names a budget the budget, and who names the lengths of the records the phases.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

import tomli_w

from bert_keras.errors import InputError
from bert_keras.pipelines.records.make_records_command import build_remake_command
from bert_keras.pipelines.records.manifest import list_tokenizer_differences
from bert_keras.training.config.phases import PhasePlan, join_schedules, plan_phases
from bert_keras.training.config.settings import said
from bert_keras.training.config.sources import (
    RECIPES,
    TABLES,
    TopLevel,
    merged_layers,
    parse_assignments,
    raw_layers,
    recipe_path,
)
from bert_keras.training.config.tables import (
    BatchesSettings,
    BudgetSettings,
    EvaluationSettings,
    ModelSettings,
    OptimizerSettings,
    PhaseSettings,
    RecordsSettings,
    SpeedSettings,
)

__all__ = ["RECIPES", "PhasePlan", "Pretraining", "parse_assignments", "recipe_path"]

_RATE_TOLERANCE = 1e-6  # shares written with a few digits need not sum to 1 exactly


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """All settings of one pretraining run; `tables` says what each means.

    Args:
        recipe: the name of the recipe that it began from, or None.
        source: where its numbers come from, and what of its source is not done.
        seed: draws weights, masks, order and dropout.
        phases: parts of the budget; none: one phase on the first records.

    Raises:
        InputError: settings that do not fit together; all are named.

    Example:
        >>> run = Pretraining.resolve(recipe="bert", overrides={"model.preset": "mini", "budget.steps": 5000})
        >>> run.model.preset, run.optimizer.warmup_ratio, [plan.num_steps for plan in run.plan()]
        ('mini', 0.01, [4500, 500])
    """

    recipe: str | None = None
    source: str = ""
    seed: int = 0
    model: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    records: RecordsSettings = dataclasses.field(default_factory=RecordsSettings)
    batches: BatchesSettings = dataclasses.field(default_factory=BatchesSettings)
    optimizer: OptimizerSettings = dataclasses.field(default_factory=OptimizerSettings)
    budget: BudgetSettings = dataclasses.field(default_factory=lambda: BudgetSettings(steps=1000))
    evaluation: EvaluationSettings = dataclasses.field(default_factory=EvaluationSettings)
    speed: SpeedSettings = dataclasses.field(default_factory=SpeedSettings)
    phases: tuple[PhaseSettings, ...] = ()

    def __post_init__(self):
        faults = [*self._model_faults(), *self._number_faults(), *self._phase_faults()]
        if faults:
            raise InputError("; ".join(faults))

    @classmethod
    def resolve(
        cls,
        file: str | os.PathLike | None = None,
        recipe: str | None = None,
        overrides: Mapping[str, object] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> "Pretraining":
        """Puts the settings of a run together.

        Args:
            file: a TOML file; None: none.
            recipe: one of `RECIPES`; it goes before the recipe that the file names.
            overrides: values by dotted keys ("optimizer.learning_rate"), such as flags; None = not said.
            defaults: values by dotted keys that everything else goes before, such as `infer_settings`.

        Raises:
            InputError: the file cannot be read; or unknown keys, wrong values, or settings that do not fit together:
                all faults are told at once, each with where it stands and its key.
        """
        layers = raw_layers(file, recipe, overrides or {}, defaults or {})
        values = merged_layers(layers)
        tables = {name: TABLES[name](**values.pop(name)) for name in TABLES if name in values}
        phases = tuple(PhaseSettings(**phase) for phase in values.pop("phases", ()))
        try:
            return cls(**values, **tables, phases=phases)
        except InputError as error:
            raise InputError(f"{' + '.join(origin for origin, _ in layers)}: {error}") from error

    def to_toml(self) -> str:
        """Returns every setting as TOML; `resolve` of that file gives an equal run."""
        return tomli_w.dumps(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """Returns every setting, in nested tables of plain values."""
        values = dict(said(TopLevel(self.recipe, self.source, self.seed)))
        values |= {name: dict(said(getattr(self, name))) for name in TABLES}
        return {**values, "phases": [dict(said(phase)) for phase in self.phases]}

    def plan(self, num_records: Sequence[int] = ()) -> list[PhasePlan]:
        """Returns the phases in their order, with steps or seconds.

        Args:
            num_records: the rows of each records folder; needed where the budget is in epochs.

        Raises:
            InputError: a phase would get no step; or the budget is in epochs and the rows are not given.
        """
        return plan_phases(self.phases, self.records, self.batches, self.optimizer, self.budget, num_records)

    def check_records(self, manifests: Sequence[Mapping[str, object]], folders: Sequence[str]) -> None:
        """Raises `InputError` unless there is a folder for each length, made as this run says, with one tokenizer."""
        lengths = self.records.max_sequence_lengths
        if len(folders) != len(lengths):
            commands = "  and  ".join(self.records.command(index) for index in range(len(lengths)))
            raise InputError(
                f"{len(folders)} records folders were given, and the run has records of {len(lengths)} lengths "
                f"{list(lengths)}; expected one folder for each, made with  {commands}  or other lengths: "
                f"--set records.max_sequence_lengths=..."
            )
        for index, (manifest, folder) in enumerate(zip(manifests, folders, strict=True)):
            self.records.check_manifest(manifest, index, folder)
            if differing := list_tokenizer_differences(manifest, manifests[0], here=f"in {folders[0]}"):
                raise InputError(
                    f"{folder} was made with another tokenizer ({'; '.join(differing)}); expected one for all phases: "
                    f"make it again with  {build_remake_command(manifest, folder, vocabulary=folders[0])}"
                )

    def stretches(self, num_records: Sequence[int] = ()) -> list[tuple[float, float]]:
        """Returns (peak learning rate, steps or seconds) of each stretch with one schedule; arguments as `plan`."""
        return join_schedules(self.plan(num_records))

    def num_steps(self, num_records: Sequence[int] = ()) -> int | None:
        """Returns the optimizer steps of the whole run, None where the budget is in hours; arguments as `plan`."""
        steps = [plan.num_steps for plan in self.plan(num_records)]
        return None if None in steps else sum(steps)

    def _model_faults(self) -> Iterator[str]:
        if self.model.objective == "bert" and self.records.sentence_objective == "none":
            yield "model.objective 'bert' needs sentences, and records.sentence_objective is 'none': change either"
        if self.model.start_from is not None:  # see `starting.resolve_start`
            return
        try:
            config = self.model.bert_config(30522, max(self.records.max_sequence_lengths))
            if self.model.objective == "electra":
                self.model.generator_config(config)
        except InputError as error:
            yield f"[model] {error}"

    def _number_faults(self) -> Iterator[str]:
        budget = dict(said(self.budget))
        if len(budget) != 1:
            yield f"[budget] says {', '.join(budget) or 'nothing'}; expected exactly one of steps, epochs, hours"
        if sum(self.batches.replace_rates) > 1 + _RATE_TOLERANCE:
            yield f"batches.replace_rates {list(self.batches.replace_rates)} sum to more than 1"
        if self.records.keep_documents_apart and self.records.sentence_objective != "none":
            yield "records.keep_documents_apart is for sentence_objective 'none': leave it out"
        if self.optimizer.schedule == "inverse_sqrt" and not self.optimizer.warmup_ratio:
            yield "optimizer.schedule inverse_sqrt falls from the end of its warm-up: set optimizer.warmup_ratio above 0"
        parts = self.batches.accumulation_steps
        for size in {self.batches.batch_size, *(phase.batch_size or parts for phase in self.phases)}:
            if size % parts:
                yield f"batch_size {size} cannot be cut into batches.accumulation_steps {parts} equal parts"

    def _phase_faults(self) -> Iterator[str]:
        total, num_folders = sum(phase.share for phase in self.phases), len(self.records.max_sequence_lengths)
        if self.phases and abs(total - 1) > _RATE_TOLERANCE:
            yield f"the shares of [[phases]] sum to {total:g}, expected 1"
        for number, phase in enumerate(self.phases, 1):
            if phase.records >= num_folders:
                yield (
                    f"phase {number} reads records {phase.records}, counted from 0, and "
                    f"records.max_sequence_lengths names {num_folders}: add its length, or leave the phase out"
                )
