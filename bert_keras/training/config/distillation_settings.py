"""`Distillation`: the settings of a distillation run. No TensorFlow here."""

from collections.abc import Iterator

from bert_keras.config import PRESETS
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.settings import (
    Count,
    Flag,
    Fraction,
    Number,
    PositiveNumber,
    Text,
    settings,
)

SIZES = ("hidden_dim", "num_heads", "intermediate_dim")  # of a new student; `num_layers` also cuts a teacher


@settings
class Distillation(FineTuning):
    """The settings of a distillation run: the student, the losses, and those of `FineTuning` with other defaults.

    Args:
        student: a preset of `BertConfig`, for a new encoder of that size, or a checkpoint folder with the vocabulary of
            the teacher. None: the teacher with fewer layers.
        num_layers: number of layers; without `student` that many of the teacher's, evenly spaced; one is the first.
        hidden_dim, num_heads, intermediate_dim: sizes of a new encoder. Default: those of the preset;
            `intermediate_dim` keeps the preset's ratio to `hidden_dim`.
        trim_vocabulary: keep only the special tokens, those that the training texts use, and all single characters of
            ASCII.
        temperature: divides the logits of both models before the softmax or sigmoid; not used for numbers and vectors.
        label_weight: weight of the loss on labels, 0 to 1; that on the teacher's outputs is 1 - `label_weight`.
        hidden_weight: weight of the mean squared difference of hidden states.
        attention_weight: weight of the divergence of attention probabilities; needs the teacher's number of heads.
        num_epochs, learning_rate: as in `FineTuning`; the defaults are for small students.
        head_rate_factor: as in `FineTuning`; the default is 1, because the head can be that of the teacher.

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
