"""`Workload`: a model, and the shape of the batches that it reads and learns from."""

import dataclasses
import functools

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.subject_names import check_plan_length
from bert_keras.analysis.cost_model.tracing.recording import ENCODER, Operation, gradients_of, traced_operations
from bert_keras.errors import InputError
from bert_keras.features import ENCODER_INPUTS
from bert_keras.modeling import (
    BertClassifier,
    BertEncoder,
    BertQuestionAnswerer,
    BertTokenClassifier,
    ElectraPretrainer,
)
from bert_keras.modeling.electra import ID_BLOCK
from bert_keras.modeling.masked_lm import BertPretrainer, MaskedLMModel

_LENGTHS = (32, 64, 128, 256, 512)
MASKED_SHARE = 0.15  # of the tokens of a row, Devlin et al. 2018, 3.1


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model at work on batches of one shape.

    Args:
        model: an encoder, with a head or without. Nothing is computed, its weights are not read.
        batch_size: B, rows in a batch.
        length: S, tokens in a row.
        num_slots: M, masked slots in a row, of models that predict them; None: 15 % of the tokens.

    Raises:
        InputError: rows are longer than the model reads.
    """

    model: keras.Model
    batch_size: int
    length: int
    num_slots: int | None = None

    def __post_init__(self):
        check_plan_length(self.length, self.encoder.config.max_sequence_length)

    @property
    def encoder(self) -> BertEncoder:
        """The model's encoder, or itself."""
        return getattr(self.model, "encoder", self.model)

    @property
    def learns(self) -> bool:
        """Whether `training` can be told: of encoders alone, embedders and ELECTRA without a generator it cannot."""
        heads = (MaskedLMModel, BertClassifier, BertTokenClassifier, BertQuestionAnswerer)
        return isinstance(self.model, heads) or self._has_generator

    @property
    def _has_generator(self) -> bool:
        return isinstance(self.model, ElectraPretrainer) and self.model.generator is not None

    @functools.cached_property
    def forward(self) -> list[Operation]:
        """The operations of a forward pass in inference."""
        return self._traced(lambda features: self.model(features, training=False), self.features())

    @functools.cached_property
    def training(self) -> list[Operation]:
        """The operations of a training step without the optimizer's, with the loss that belongs to the model."""
        model = self.model
        if not self.learns:
            raise InputError(f"the training of a {type(model).__name__} cannot be counted; expected one with a head")
        was_compiled = model.compiled
        if not was_compiled:  # only for the loss
            model.compile("sgd")
        variables = [weight.value for weight in model.trainable_weights]

        def step(features, labels):
            with tf.GradientTape() as tape:
                outputs = model(features, training=True)
                loss = model.compute_loss(features, labels, outputs, training=True)
            return gradients_of(tape, loss, variables)

        try:
            return self._traced(step, *self.examples())
        finally:
            model.compiled = was_compiled

    def _traced(self, function, *specs) -> list[Operation]:
        names = {name for weight in self.model.weights for name in weight.path.split("/")[:-1]}
        layers = {name: ENCODER if name == self.encoder.name else name for name in names}
        return traced_operations(function, *specs, layers=layers)

    def features(self, training: bool = False) -> dict[str, tf.TensorSpec]:
        """Returns the specs of what the model reads."""
        names = (*ENCODER_INPUTS, "segment_ids")
        has_slots = isinstance(self.model, MaskedLMModel) or (training and self._has_generator)
        slots = {"mask_positions": self._spec(self.slots)} if has_slots else {}
        return {name: self._spec(self.length) for name in names} | slots

    def examples(self) -> tuple:
        """Returns the specs of what it learns from: features and labels."""
        return self.features(training=True), self._labels()

    def _labels(self):
        model = self.model
        if isinstance(model, (MaskedLMModel, ElectraPretrainer)):
            labels = {"mask_ids": self._spec(self.slots), "mask_weights": self._spec(self.slots, dtype="float32")}
            of_pairs = {"next_sentence_labels": self._spec()} if isinstance(model, BertPretrainer) else {}
            return labels | of_pairs
        if isinstance(model, BertQuestionAnswerer):
            return {"start_positions": self._spec(), "end_positions": self._spec()}
        if isinstance(model, BertTokenClassifier):
            return self._spec(self.length)
        if isinstance(model, BertClassifier) and model.problem != "single_label":
            return self._spec(model.num_classes, dtype="float32")
        return self._spec()

    @property
    def slots(self) -> int:
        """Masked slots in a row."""
        return self.num_slots or slots_of(self.length)

    def _spec(self, *sizes: int, dtype: str = "int32") -> tf.TensorSpec:
        return tf.TensorSpec((self.batch_size, *sizes), dtype)


def dimensions_of(model: keras.Model) -> set[int]:
    """Returns the sizes that tensors of a model may have whatever the batch."""
    config = getattr(model, "encoder", model).config
    blocks = -(-config.vocabulary_size // ID_BLOCK)  # that ELECTRA looks an id up in
    of_weights = {size for weight in model.weights for size in weight.shape}
    return of_weights | {config.max_sequence_length, blocks, ID_BLOCK * blocks}


def usual_lengths(longest: int) -> list[int]:
    """Returns 32, 64, 128, 256 and 512 tokens, as far as a model reads that many; else the most that it reads."""
    return [length for length in _LENGTHS if length <= longest] or [longest]


def slots_of(length: int) -> int:
    """Returns how many slots of a row of `length` tokens are masked: 15 %."""
    return max(1, round(MASKED_SHARE * length))
