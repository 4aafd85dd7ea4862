"""`FineTuning`, `Distillation` and `TaskSettings`: the settings of a fine-tuning and of a distillation run.

The docstrings are also the help of the options. No TensorFlow here.
"""

from collections.abc import Iterator
from typing import Literal

from bert_keras.config import PRESETS, PROBLEMS
from bert_keras.heads.embed import OBJECTIVES
from bert_keras.heads.known_heads import list_finetuned_heads
from bert_keras.training.config.settings import (
    Count,
    CountOrZero,
    Flag,
    Fraction,
    Number,
    PositiveFraction,
    PositiveNumber,
    Rate,
    Seed,
    Text,
    settings,
)
from bert_keras.training.config.tables import DTYPE_POLICIES

LEARNING_RATE = 3e-5
# The best of those tried on MiniLM-L6, see LoRA in docs/design/decisions.md.
LORA_LEARNING_RATE = 2e-3
LORA_HEAD_RATE_FACTOR = 10.0
LORA_SCALE = 2  # alpha divided by the rank, if alpha is not given


# settings whose option of the commands has another name
OPTION_NAMES = {
    "num_epochs": "epochs",
    "frozen_blocks": "freeze_blocks",
    "keep_best": "keep_last",
    "dtype_policy": "dtype",
    "num_layers": "layers",
}
_TASKS = tuple(head.name for head in list_finetuned_heads())
SIZES = ("hidden_dim", "num_heads", "intermediate_dim")  # of a new student; `num_layers` also cuts a teacher


@settings
class TaskSettings:
    """The task to train for, and the settings of single tasks, whose defaults the task knows.

    Args:
        task: task to train for.
        problem: classify: kind of labels. Default: single_label.
        class_weights: classify: balanced gives rare classes more weight. Default: equal.
        labelled_tokens: tag: tokens of a word that are trained with its tag. Default: first.
        max_answer_length: answer: maximum number of tokens in an answer. Default: 30.
        objective: embed: regression for pairs with scores, contrastive for pairs that match. Default: regression.
        prompt: embed: name of the prompt that is put before each text.
    """

    task: Literal[_TASKS] = _TASKS[0]
    problem: Literal[PROBLEMS] | None = None
    class_weights: Literal["equal", "balanced"] | None = None
    labelled_tokens: Literal["first", "all"] | None = None
    max_answer_length: Count | None = None
    objective: Literal[tuple(OBJECTIVES)] | None = None
    prompt: Text | None = None


@settings
class FineTuning:
    """The settings of a fine-tuning run; the defaults are those of Devlin et al. 2018 (A.3).

    Args:
        num_epochs: number of training epochs.
        batch_size: sequences per step over all replicas (embed: pairs of texts); a text that is split into windows is
            several sequences.
        learning_rate: peak learning rate; 2e-5 to 5e-5 for BERT-Base, up to 1e-3 for tiny models. Default: 3e-5, or
            2e-3 with `lora_rank`.
        warmup_ratio: fraction of the steps with a rising learning rate.
        weight_decay: weight decay of matrices and embedding tables.
        layer_decay: factor by which the learning rate decreases from each block to the one below it, as in ELECTRA's
            code; 1 = the same learning rate in all layers.
        head_rate_factor: factor of the learning rate of the head, which may start from random weights. Default: 1, or
            10 with `lora_rank`.
        frozen_blocks: freeze the embeddings and this many blocks above them; 0 = the embeddings only. Default: all
            weights are trained.
        lora_rank: train adapters of this rank in the dense layers of the encoder, and the head (LoRA, Hu et al. 2021);
            all other weights stay fixed. Default: no adapters.
        lora_alpha: the adapters are scaled by `lora_alpha` / `lora_rank`. Default: twice the rank.
        patience: stop after this many epochs without a better score on the held-out examples; 0 = never.
        keep_best: end with the weights of the best epoch instead of the last.
        seed: random seed of the new head's weights, dropout and the order of the examples.
        accumulation_steps: micro-batches per step and replica, to save memory.
        gradient_checkpointing: recompute each block's activations in the backward pass, to save memory.
        dtype_policy: Keras dtype policy; mixed_bfloat16 and mixed_float16 compute in 16 bits and store the weights in
            32.

    Raises:
        InputError: settings are out of range; the message lists all of them.
    """

    num_epochs: Count = 3
    batch_size: Count = 32
    learning_rate: PositiveNumber | None = None
    warmup_ratio: Rate = 0.1
    weight_decay: Number = 0.01
    layer_decay: PositiveFraction = 1.0
    head_rate_factor: PositiveNumber | None = None
    frozen_blocks: CountOrZero | None = None
    lora_rank: Count | None = None
    lora_alpha: Count | None = None
    patience: CountOrZero = 0
    keep_best: Flag = True
    seed: Seed = 0
    accumulation_steps: Count = 1
    gradient_checkpointing: Flag = False
    dtype_policy: Literal[DTYPE_POLICIES] = "float32"

    def __post_init__(self) -> None:
        """Set the defaults that depend on `lora_rank`."""
        if self.learning_rate is None:
            self._set("learning_rate", LORA_LEARNING_RATE if self.lora_rank else LEARNING_RATE)
        if self.head_rate_factor is None:
            self._set("head_rate_factor", LORA_HEAD_RATE_FACTOR if self.lora_rank else 1.0)
        if self.lora_rank and self.lora_alpha is None:
            self._set("lora_alpha", LORA_SCALE * self.lora_rank)

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)  # the class is frozen

    def conflicts(self) -> Iterator[str]:
        """Yield a sentence for each setting that needs another one."""
        if self.lora_alpha is not None and self.lora_rank is None:
            yield (
                f"lora_alpha is {self.lora_alpha} without lora_rank; expected both, or none: add lora_rank, such as 8, "
                "or leave lora_alpha out"
            )


@settings
class Distillation(FineTuning):
    """The settings of a distillation run: the student, the losses, and those of `FineTuning` with other defaults.

    Args:
        student: size of a new encoder (tiny, mini, small, medium, base or large), or a checkpoint folder with the
            teacher's vocabulary. Default: the teacher with fewer layers.
        num_layers: number of layers; without `student` that many of the teacher's, evenly spaced (a single one is the
            teacher's first).
        hidden_dim: width of a new encoder. Default: that of the preset.
        num_heads: attention heads of a new encoder. Default: those of the preset.
        intermediate_dim: feed-forward width of a new encoder. Default: in the preset's proportion to `hidden_dim`.
        trim_vocabulary: keep only special tokens, tokens that the training texts use, and single characters of ASCII.
        temperature: divides the logits of both models before the softmax or sigmoid; not used for numbers and vectors.
        label_weight: weight of the loss on labels, 0 to 1; the teacher's outputs have 1 minus this weight.
        hidden_weight: weight of the mean squared difference of hidden states.
        attention_weight: weight of the divergence of attention probabilities; needs the teacher's number of heads.

    The defaults of `num_epochs` and `learning_rate` are for small students. `head_rate_factor` is 1, because the head
    can be that of the teacher.

    `lora_rank` is refused: all weights of a student are trained.

    Raises:
        InputError: settings are out of range or do not fit together.
    """

    num_epochs: Count = 10
    learning_rate: PositiveNumber = 3e-4
    head_rate_factor: PositiveNumber = 1.0
    student: Text | None = None
    num_layers: Count | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    trim_vocabulary: Flag = False
    temperature: PositiveNumber = 2.0
    label_weight: Fraction = 0.1
    hidden_weight: Number = 0.0
    attention_weight: Number = 0.0

    def conflicts(self) -> Iterator[str]:
        """Yield a sentence for each combination of settings that is invalid."""
        if self.lora_rank is not None:
            yield (
                f"lora_rank is {self.lora_rank}; expected none, because all weights of a student are trained: leave it "
                "out, or train an adapter with finetune"
            )
        else:
            yield from super().conflicts()
        if self.student is None and self.num_layers is None:
            yield (
                "neither student nor num_layers was given; expected the size of the student: set num_layers to keep "
                f"that many of the teacher's layers, or student to one of {', '.join(PRESETS)} or to a folder"
            )
        given = [name for name in (*SIZES, "num_layers") if getattr(self, name) is not None]
        if self.student is None and (sizes := [name for name in given if name in SIZES]):
            yield (
                f"{' and '.join(sizes)} were given without student; expected sizes of a new encoder only, since the "
                "layers of the teacher keep theirs: set student to a preset, or leave them out"
            )
        if self.student is not None and self.student not in PRESETS and given:
            yield (
                f"{' and '.join(given)} were given and student is the folder {self.student}, which determines the "
                "sizes; expected one of both: leave the sizes out"
            )
