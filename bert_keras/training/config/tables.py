"""The tables of a pretraining run: what each setting means, its unit and its default. No TensorFlow here."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from bert_keras.architectures.known_architectures import check_config
from bert_keras.config import HIDDEN_ACTS, POSITION_TYPES, PRESETS, BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import PRETRAINED_HEADS
from bert_keras.pipelines.records.settings import build_make_records_command, build_remake_command
from bert_keras.training.config.settings import (
    BudgetNumber,
    Count,
    CountOrZero,
    Flag,
    FlagOrAuto,
    Fraction,
    Number,
    PositiveFraction,
    PositiveNumber,
    PositiveRate,
    Rate,
    Seed,
    Text,
    list_fields,
    settings,
    to_plain_values,
)

RECIPES = ("bert", "roberta", "electra-small", "24h", "cramming", "fast")
OBJECTIVES = tuple(PRETRAINED_HEADS)
SENTENCE_OBJECTIVES = ("nsp", "sop", "none")
DTYPE_POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
MASK_UNITS = ("token", "whole_word", "span")
STRATEGIES = ("one-device", "mirrored", "multi-worker", "tpu")  # an option of the commands, not a setting of a run
OPTIMIZERS = ("adamw", "lamb", "muon")
SCHEDULES = ("linear", "cosine", "polynomial", "constant", "inverse_sqrt", "one_cycle")
SIZE_FIELDS = ("num_layers", "num_heads", "hidden_dim", "intermediate_dim", "embedding_dim")
OUTPUT_BIASES = ("zeros", "token_frequency")

DEFAULT_PRESET, DEFAULT_GENERATOR_SIZE = "tiny", 0.25
# Continued pretraining needs a lower learning rate, or it overwrites what the checkpoint has learned. 5e-5 is the
# default of transformers' `run_mlm.py`; Google's README of BERT recommends 2e-5. Warm-up: Gururangan et al. 2020.
START_OPTIMIZER = {"learning_rate": 5e-5, "warmup_ratio": 0.06}

_SequenceLength = Annotated[int, Field(strict=True, ge=8, le=2**63 - 1)]


@settings
class ModelSettings:
    """`[model]`: what is trained.

    Args:
        objective: bert (masked tokens, and next sentence or sentence order), mlm (masked tokens) or electra (replaced
            tokens).
        preset: size of a new model. Default: tiny, or the size of `start_from`.
        generator_size: width of ELECTRA's generator as a fraction of the discriminator's. Default: 0.25, or that of
            `start_from`.
        dtype_policy: Keras dtype policy of the layers.
        start_from: checkpoint to continue pretraining from; the records must have its tokenizer. Default: new weights.
        output_bias: bias of the masked-LM head before the first step: "zeros", as in BERT, or "token_frequency", the
            logarithm of each token's frequency, so that no step is spent on learning it. Not with `start_from`.
        pretraining_dropout: whether the pretraining applies dropout. False keeps the dropout rates of the model, which
            are then those of its fine-tuning.
        model_type: architecture of a new model, as in `config.json`. Default: that of the objective.
        num_layers ... initializer_range: fields of `BertConfig`. Default: those of the preset or of `start_from`.
    """

    objective: Literal[OBJECTIVES] = OBJECTIVES[0]
    preset: Literal[tuple(PRESETS)] | None = None
    generator_size: PositiveFraction | None = None
    dtype_policy: Literal[DTYPE_POLICIES] = "float32"
    start_from: Text | None = None
    output_bias: Literal[OUTPUT_BIASES] = "zeros"
    pretraining_dropout: Flag = True
    model_type: Text | None = None
    num_layers: Count | None = None
    num_heads: Count | None = None
    hidden_dim: Count | None = None
    intermediate_dim: Count | None = None
    embedding_dim: Count | None = None
    type_vocabulary_size: Count | None = None
    hidden_act: Literal[HIDDEN_ACTS] | None = None
    position_type: Literal[POSITION_TYPES] | None = None
    hidden_dropout_rate: Rate | None = None
    attention_dropout_rate: Rate | None = None
    layer_norm_epsilon: PositiveNumber | None = None
    initializer_range: PositiveNumber | None = None

    def __post_init__(self):
        if self.start_from is None:
            object.__setattr__(self, "preset", self.preset or DEFAULT_PRESET)
            object.__setattr__(self, "generator_size", self.generator_size or DEFAULT_GENERATOR_SIZE)

    @property
    def head(self) -> Head:
        """The head of the model that the objective trains."""
        return PRETRAINED_HEADS[self.objective]

    def bert_config(self, vocabulary_size: int, max_sequence_length: int) -> BertConfig:
        """Return the config of the encoder.

        Raises:
            InputError: the sizes do not fit together.
        """
        overrides = {name: value for name, value in to_plain_values(self).items() if name in MODEL_FIELDS}
        sizes = {"vocabulary_size": vocabulary_size, "max_sequence_length": max_sequence_length}
        objective = self.head.objective
        overrides = {"model_type": objective.model_type, **overrides}
        config = BertConfig.from_preset(self.preset or DEFAULT_PRESET, **sizes, **overrides)
        check_config(config, pooler=objective.reads_pairs)
        return config

    def generator_config(self, config: BertConfig) -> BertConfig:
        """Return the config of ELECTRA's generator: `generator_size` times as wide (Clark et al. 2020, 3.2)."""
        fraction = self.generator_size or DEFAULT_GENERATOR_SIZE
        num_heads = max(1, round(config.num_heads * fraction))
        head_dim = max(1, round(config.hidden_dim * fraction / num_heads))
        return dataclasses.replace(
            config,
            num_heads=num_heads,
            hidden_dim=num_heads * head_dim,
            intermediate_dim=max(1, round(config.intermediate_dim * fraction)),
        )


# the settings that `start_from` determines
MODEL_FIELDS = tuple(name for name in list_fields(ModelSettings) if name in list_fields(BertConfig))


@settings
class RecordsSettings:
    """`[records]`: the `make-records` settings that the run expects.

    Args:
        sentence_objective: "nsp" (next sentence), "sop" (sentence order) or "none" (full sentences).
        short_sequence_rate: fraction of sentence pairs that are shortened.
        keep_documents_apart: with "none": end a sequence at the end of its document.
        packed: several examples per sequence.
        max_sequence_lengths: tokens per sequence, one number for each records folder.
        duplicates: how often each text is used, with different sentence pairs and, with static masking, different
            masks.
    """

    sentence_objective: Literal[SENTENCE_OBJECTIVES] = "nsp"
    short_sequence_rate: Rate = 0.1
    keep_documents_apart: Flag = False
    packed: Flag = False
    max_sequence_lengths: Annotated[tuple[_SequenceLength, ...], Field(min_length=1)] = (128,)
    duplicates: Count = 1

    def manifest_settings(self, index: int) -> dict[str, object]:
        """Return the settings that the manifest of records folder `index` should have, keyed by `make-records` name."""
        values = to_plain_values(self)
        return {"max_sequence_length": values.pop("max_sequence_lengths")[index], **values}

    def check_manifest(self, manifest: Mapping[str, object], index: int, folder: str) -> None:
        """Raise `InputError` if records folder `index` was made with other settings; the message lists all of them."""
        expected = self.manifest_settings(index)
        differences = [
            f"{name} is {manifest[name]} there and {value} in the run"
            for name, value in expected.items()
            if name in manifest and manifest[name] != value
        ]
        if differences:
            raise InputError(
                f"{folder} was made with different settings ({'; '.join(differences)}): change [records] of the run, "
                f"or make it again with  {build_remake_command({**manifest, **expected}, folder, vocabulary=folder)}"
            )

    def command(self, index: int) -> str:
        """Return the `make-records` command that makes records folder `index`."""
        return build_make_records_command(self.manifest_settings(index), vocabulary="VOCAB", out="RECORDS")


@settings
class BatchesSettings:
    """`[batches]`: how sequences are masked and batched.

    Args:
        batch_size: sequences per step, over all replicas and micro-batches.
        accumulation_steps: micro-batches per step, to save memory.
        masking: dynamic (new masks in each epoch) or static (the same masks for a sequence in each epoch).
        mask_unit: what is masked as a whole: token, whole_word or span.
        mask_rate: fraction of tokens to mask.
        replace_rates: fractions of the masked positions that become [MASK] and a random token; the others keep their
            token.
        max_predictions: masked positions per sequence. Default: `mask_rate` of its length, rounded up (20 of 128, 77
            of 512).
    """

    batch_size: Count = 32
    accumulation_steps: Count = 1
    masking: Literal["dynamic", "static"] = "dynamic"
    mask_unit: Literal[MASK_UNITS] = "token"
    mask_rate: PositiveRate = 0.15
    replace_rates: Annotated[tuple[Fraction, ...], Field(min_length=2, max_length=2)] = (0.8, 0.1)
    max_predictions: Count | None = None

    def num_predictions(self, max_sequence_length: int) -> int:
        """Return the masked positions per sequence of that length."""
        # the formula of `masking.get_default_max_predictions`, which imports TensorFlow; a test compares them
        return self.max_predictions or max(1, math.ceil(round(max_sequence_length * self.mask_rate, 6)))


@settings
class OptimizerSettings:
    """`[optimizer]`: see `optimizers.make_optimizer` and `schedules`.

    Args:
        name: optimizer: adamw, lamb or muon.
        learning_rate: peak learning rate, or 5e-5 by default to continue from a checkpoint.
        schedule: one of `SCHEDULES`, see `optimizers/schedules.py`.
        warmup_ratio: fraction of the steps, or of the time, with a rising learning rate. Default with `start_from`:
            0.06.
        power: exponent of the "polynomial" schedule.
        weight_decay: weight decay of matrices and embedding tables; biases and norms are not decayed.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to the square root of the second moment.
        clip_norm: maximum global norm of the gradients; 0 = no clipping.
    """

    name: Literal[OPTIMIZERS] = "adamw"
    learning_rate: PositiveNumber = 1e-3
    schedule: Literal[SCHEDULES] = "linear"
    warmup_ratio: Rate = 0.1
    power: PositiveNumber = 1.0
    weight_decay: Number = 0.01
    beta_1: Rate = 0.9
    beta_2: Rate = 0.999
    epsilon: PositiveNumber = 1e-6
    clip_norm: Number = 1.0


@settings
class BudgetSettings:
    """`[budget]`: how long to train; exactly one of the settings.

    Args:
        steps: number of optimizer steps. Default: 1000.
        epochs: number of epochs (passes over the records), instead of `steps`.
        hours: limit of the wall-clock time, instead of `steps`.
    """

    steps: Count | None = None
    epochs: BudgetNumber | None = None
    hours: BudgetNumber | None = None


@settings
class PhaseSettings:
    """`[[phases]]`: one part of the budget, with its own records.

    Args:
        records: index of the records folder, counted from 0 in the order of `records.max_sequence_lengths`.
        share: fraction of the budget.
        batch_size: sequences per optimizer step. Default: `batches.batch_size`.
        learning_rate: the peak of a new schedule with its own warm-up. Default: the schedule continues.
        rewarm: start a new schedule with the same peak.
    """

    records: CountOrZero = 0
    share: PositiveFraction = 1.0
    batch_size: Count | None = None
    learning_rate: PositiveNumber | None = None
    rewarm: Flag = False


@settings
class EvaluationSettings:
    """`[evaluation]` on held-out records.

    Args:
        every_steps: steps between evaluations; 0 = only before the first step and after the last one.
        num_batches: maximum batches per evaluation.
    """

    every_steps: CountOrZero = 0
    num_batches: Count = 100


@settings
class SpeedSettings:
    """`[speed]`: settings that change time and memory, not what is learned.

    Args:
        jit_compile: compile the step with XLA; "auto" = yes, except for bfloat16 on a processor with bfloat16
            instructions, which XLA does not use. Dropout draws different random numbers without XLA.
        steps_per_execution: steps per call, on one device.
        gradient_checkpointing: recompute each block's activations in the backward pass, to save memory on long
            sequences.
    """

    jit_compile: FlagOrAuto = "auto"
    steps_per_execution: Count = 1
    gradient_checkpointing: Flag = False


@settings
class RunSettings:
    """Every table of a pretraining run, each valid on its own; `Pretraining` checks that they fit together.

    Args:
        seed: random seed of weights, masks, data order and dropout.
    """

    recipe: Literal[RECIPES] | None = None
    source: Text = ""
    seed: Seed = 0
    model: ModelSettings = ModelSettings()
    records: RecordsSettings = RecordsSettings()
    batches: BatchesSettings = BatchesSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    budget: BudgetSettings = BudgetSettings(steps=1000)
    evaluation: EvaluationSettings = EvaluationSettings()
    speed: SpeedSettings = SpeedSettings()
    phases: tuple[PhaseSettings, ...] = ()
