"""The tables of a pretraining run's file: what each setting means, its unit, its default. No TensorFlow here."""

import dataclasses
import math
from collections.abc import Mapping

from bert_keras.config import HIDDEN_ACTS, POSITION_TYPES, PRESETS, BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.records.make_records_command import build_remake_command, make_records_command
from bert_keras.training.config.settings import Settings, choice, flag, number, said, several, text, whole

OBJECTIVES = ("bert", "mlm", "electra")
SENTENCE_OBJECTIVES = ("nsp", "sop", "none")
DTYPE_POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
STRATEGIES = ("one-device", "mirrored", "multi-worker", "tpu")  # not a setting: where a run runs
OPTIMIZERS = ("adamw", "lamb")
# the same names as schedules.SCHEDULES, which needs Keras; a test holds them together
SCHEDULES = ("linear", "cosine", "polynomial", "constant", "inverse_sqrt", "one_cycle")
SIZE_FIELDS = ("num_layers", "num_heads", "hidden_dim", "intermediate_dim", "embedding_dim")

_NOT_OF_THE_CONFIG = ("objective", "preset", "generator_size", "dtype_policy", "start_from")
PRESET, GENERATOR_SIZE = "tiny", 0.25
# The usual rates of pretraining would undo what a checkpoint knows. 5e-5 is the default of transformers' `run_mlm.py`,
# which adapts models; Google's README of BERT names 2e-5. The warm-up is that of Gururangan et al. 2020.
START_OPTIMIZER = {"learning_rate": 5e-5, "warmup_ratio": 0.06}


@dataclasses.dataclass(frozen=True)
class ModelSettings(Settings):
    """`[model]`: what is trained.

    Args:
        objective: "bert" (masked words and sentences), "mlm" (masked words) or "electra" (replaced words).
        preset: the size, see `BertConfig.from_preset`; unsaid: "tiny", or that of `start_from`.
        generator_size: ELECTRA's generator, as a share of the discriminator's width; unsaid: 0.25, or that of
            `start_from`.
        dtype_policy: Keras's name for what is computed in which type.
        start_from: a checkpoint folder whose training is continued on new text; unsaid: new weights.
        num_layers ... initializer_range: fields of `BertConfig`; unsaid: what the preset says, or `start_from`.
    """

    objective: str = choice("bert", OBJECTIVES)
    preset: str | None = choice(None, PRESETS)
    generator_size: float | None = number(None, above=0, maximum=1)
    dtype_policy: str = choice("float32", DTYPE_POLICIES)
    start_from: str | None = text(None)
    num_layers: int | None = whole(None)
    num_heads: int | None = whole(None)
    hidden_dim: int | None = whole(None)
    intermediate_dim: int | None = whole(None)
    embedding_dim: int | None = whole(None)
    type_vocabulary_size: int | None = whole(None)
    hidden_act: str | None = choice(None, HIDDEN_ACTS)
    position_type: str | None = choice(None, POSITION_TYPES)
    hidden_dropout_rate: float | None = number(None, below=1)
    attention_dropout_rate: float | None = number(None, below=1)
    layer_norm_epsilon: float | None = number(None, above=0)
    initializer_range: float | None = number(None, above=0)

    def __post_init__(self):
        super().__post_init__()
        if self.start_from is None:
            object.__setattr__(self, "preset", self.preset or PRESET)
            object.__setattr__(self, "generator_size", self.generator_size or GENERATOR_SIZE)

    def bert_config(self, vocabulary_size: int, max_sequence_length: int) -> BertConfig:
        """Returns the encoder's shape; raises `InputError` if the overrides do not fit together."""
        overrides = {name: value for name, value in said(self) if name not in _NOT_OF_THE_CONFIG}
        return BertConfig.from_preset(
            self.preset or PRESET, vocabulary_size=vocabulary_size, max_sequence_length=max_sequence_length, **overrides
        )

    def generator_config(self, config: BertConfig) -> BertConfig:
        """Returns the shape of ELECTRA's generator: as deep, `generator_size` as wide (Clark et al. 2020, 3.2)."""
        share = self.generator_size or GENERATOR_SIZE
        num_heads = max(1, round(config.num_heads * share))
        head_dim = max(1, round(config.hidden_dim * share / num_heads))
        return dataclasses.replace(
            config,
            num_heads=num_heads,
            hidden_dim=num_heads * head_dim,
            intermediate_dim=max(1, round(config.intermediate_dim * share)),
        )


# those that a checkpoint decides
MODEL_FIELDS = tuple(field.name for field in dataclasses.fields(ModelSettings) if field.name not in _NOT_OF_THE_CONFIG)


@dataclasses.dataclass(frozen=True)
class RecordsSettings(Settings):
    """`[records]`: what `make-records` should have made.

    Args:
        sentence_objective: "nsp" (next sentence), "sop" (sentence order) or "none" (full sentences).
        short_sequence_rate: the share of pairs made shorter.
        keep_documents_apart: with "none": a row ends where its document ends.
        packed: several examples in one row.
        max_sequence_lengths: tokens a row, one number for each records folder.
        duplicates: how often each text is read, with other pairs and, if masking is static, other masks.
    """

    sentence_objective: str = choice("nsp", SENTENCE_OBJECTIVES)
    short_sequence_rate: float = number(0.1, below=1)
    keep_documents_apart: bool = flag(False)
    packed: bool = flag(False)
    max_sequence_lengths: tuple[int, ...] = several((128,), whole(128, minimum=8))
    duplicates: int = whole(1)

    def of_folder(self, index: int) -> dict[str, object]:
        """Returns what the manifest of records folder `index` should say, by the names of `make-records`."""
        lengths = {"max_sequence_length": self.max_sequence_lengths[index]}
        return lengths | {name: value for name, value in said(self) if name != "max_sequence_lengths"}

    def check_manifest(self, manifest: Mapping[str, object], index: int, folder: str) -> None:
        """Raises `InputError` if records folder `index` was made otherwise; names every difference."""
        wanted = self.of_folder(index)
        differing = [
            f"{name} {manifest[name]} there, {value} in the run"
            for name, value in wanted.items()
            if name in manifest and manifest[name] != value
        ]
        if differing:
            raise InputError(
                f"{folder} was made with other settings ({'; '.join(differing)}): change [records] of the run, or make "
                f"it again with  {build_remake_command({**manifest, **wanted}, folder, vocabulary=folder)}"
            )

    def command(self, index: int) -> str:
        """Returns the `make-records` command for records folder `index`."""
        return make_records_command(self.of_folder(index), vocabulary="VOCAB", out="RECORDS")


@dataclasses.dataclass(frozen=True)
class BatchesSettings(Settings):
    """`[batches]`: how rows become batches.

    Args:
        batch_size: rows an optimizer step, however many parts it is cut into.
        accumulation_steps: into how many parts a step is cut, to save memory.
        masking: "dynamic" (new masks in every epoch) or "static" (each row keeps its masks).
        mask_unit: what is masked as a whole: "token", "whole_word" or "span".
        mask_rate: the share of tokens to choose.
        replace_rates: of the chosen, the shares that become [MASK] and a random token; the rest stay.
        max_predictions: masked slots a row; unsaid: `mask_rate` of its length, rounded up (20 of 128, 77 of 512).
    """

    batch_size: int = whole(32)
    accumulation_steps: int = whole(1)
    masking: str = choice("dynamic", ("dynamic", "static"))
    mask_unit: str = choice("token", ("token", "whole_word", "span"))
    mask_rate: float = number(0.15, above=0, below=1)
    replace_rates: tuple[float, ...] = several((0.8, 0.1), number(0.0, maximum=1), length=2)
    max_predictions: int | None = whole(None)

    def slots(self, max_sequence_length: int) -> int:
        """Returns the masked slots of a row of that length."""
        # as `pipelines.masking.default_max_predictions`, which needs TensorFlow; a test holds them together
        return self.max_predictions or max(1, math.ceil(round(max_sequence_length * self.mask_rate, 6)))


@dataclasses.dataclass(frozen=True)
class OptimizerSettings(Settings):
    """`[optimizer]`: see `optimizers.make_optimizer` and `schedules`.

    Args:
        name: "adamw" or "lamb".
        learning_rate: the peak; unsaid, of a run that starts from a checkpoint: 5e-5.
        schedule: the shape, one of `schedules.SCHEDULES`.
        warmup_ratio: the share of the steps, or of the time, in which the rate rises; unsaid, of a run that starts from
            a checkpoint: 0.06.
        power: the exponent of the "polynomial" schedule.
        weight_decay: of matrices and tables; biases and norms are never decayed.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to the root of the second moment.
        clip_norm: the largest norm of all gradients together; 0 = no clipping.
    """

    name: str = choice("adamw", OPTIMIZERS)
    learning_rate: float = number(1e-3, above=0)
    schedule: str = choice("linear", SCHEDULES)
    warmup_ratio: float = number(0.1, below=1)
    power: float = number(1.0, above=0)
    weight_decay: float = number(0.01)
    beta_1: float = number(0.9, below=1)
    beta_2: float = number(0.999, below=1)
    epsilon: float = number(1e-6, above=0)
    clip_norm: float = number(1.0)


@dataclasses.dataclass(frozen=True)
class BudgetSettings(Settings):
    """`[budget]`: how long to train, exactly one of optimizer steps, passes over the rows, and hours on the clock."""

    steps: int | None = whole(None)
    epochs: float | None = number(None, above=0, maximum=1e6)
    hours: float | None = number(None, above=0, maximum=1e6)


@dataclasses.dataclass(frozen=True)
class PhaseSettings(Settings):
    """`[[phases]]`: a part of the budget on other records.

    Args:
        records: which records folder, counted from 0 in the order of `records.max_sequence_lengths`.
        share: of the budget.
        batch_size: rows an optimizer step; unsaid: as in `[batches]`.
        learning_rate: a peak of its own, to which the rate rises anew; unsaid: the schedule goes on.
        rewarm: whether the schedule begins anew, to the same peak.
    """

    records: int = whole(0, minimum=0)
    share: float = number(1.0, above=0, maximum=1)
    batch_size: int | None = whole(None)
    learning_rate: float | None = number(None, above=0)
    rewarm: bool = flag(False)


@dataclasses.dataclass(frozen=True)
class EvaluationSettings(Settings):
    """`[evaluation]` on held-out records: every so many steps (0: before and after all), on so many batches."""

    every_steps: int = whole(0, minimum=0)
    num_batches: int = whole(100)


@dataclasses.dataclass(frozen=True)
class SpeedSettings(Settings):
    """`[speed]`: what changes time and memory, and not what is learned.

    Args:
        jit_compile: whether XLA compiles the step; "auto": yes. Dropout is drawn in another way without.
        steps_per_execution: batches a call, on one device.
        gradient_checkpointing: compute the inside of each block twice instead of keeping it, for long rows.
    """

    jit_compile: bool | str = flag("auto", or_names=("auto",))
    steps_per_execution: int = whole(1)
    gradient_checkpointing: bool = flag(False)
