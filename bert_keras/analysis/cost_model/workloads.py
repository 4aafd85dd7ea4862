"""`Workload`: a model together with the shape of its batches."""

import dataclasses
import functools
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.subjects import check_plan_length
from bert_keras.analysis.cost_model.tracing.operations import ENCODER, Operation, compute_gradients, trace_operations
from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape
from bert_keras.checkpoints.building import get_encoder
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


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model and the shape of its batches.

    Args:
        model: an encoder, or a model with a head. Nothing is computed with it.
        shape: the shape of its batches; only masked-LM heads use the masked positions.

    Raises:
        InputError: the model does not accept sequences of this length.
    """

    model: keras.Model
    shape: BatchShape

    def __post_init__(self) -> None:
        check_plan_length(self.shape.length, self.encoder.config.max_sequence_length)

    @property
    def encoder(self) -> BertEncoder:
        """The encoder of the model."""
        return get_encoder(self.model)

    @property
    def is_trainable(self) -> bool:
        """Whether the model has its own loss. Encoders, embedders and ELECTRA without a generator have none."""
        heads = (MaskedLMModel, BertClassifier, BertTokenClassifier, BertQuestionAnswerer)
        return isinstance(self.model, heads) or self._has_generator

    @property
    def _has_generator(self) -> bool:
        return isinstance(self.model, ElectraPretrainer) and self.model.generator is not None

    @functools.cached_property
    def forward(self) -> list[Operation]:
        """The operations of a forward pass in inference."""
        return self._trace(lambda features: self.model(features, training=False), self.feature_specs())

    @functools.cached_property
    def training(self) -> list[Operation]:
        """The operations of a training step with the model's own loss, without the optimizer."""
        model = self.model
        if not self.is_trainable:
            raise InputError(f"a {type(model).__name__} has no loss to count; expected a model with a head")
        was_compiled = model.compiled
        if not was_compiled:  # `compute_loss` needs a compiled model
            model.compile("sgd")
        variables = [weight.value for weight in model.trainable_weights]

        def train(features: dict, labels: object) -> list:
            with tf.GradientTape() as tape:
                outputs = model(features, training=True)
                loss = model.compute_loss(features, labels, outputs, training=True)
            return compute_gradients(tape, loss, variables)

        try:
            return self._trace(train, *self.example_specs())
        finally:
            model.compiled = was_compiled

    def _trace(self, function: Callable, *specs: object) -> list[Operation]:
        names = {name for weight in self.model.weights for name in weight.path.split("/")[:-1]}
        layers = {name: ENCODER if name == self.encoder.name else name for name in names}
        return trace_operations(function, *specs, layers=layers)

    def feature_specs(self, training: bool = False) -> dict[str, tf.TensorSpec]:
        """Return the specs of the model's inputs."""
        specs = {name: self._make_spec(self.shape.length) for name in (*ENCODER_INPUTS, "segment_ids")}
        if isinstance(self.model, MaskedLMModel) or (training and self._has_generator):
            specs["mask_positions"] = self._make_masked_spec()
        return specs

    def example_specs(self) -> tuple:
        """Return the specs of the features and labels of a training step."""
        return self.feature_specs(training=True), self._make_label_specs()

    def _make_label_specs(self) -> tf.TensorSpec | dict[str, tf.TensorSpec]:
        model = self.model
        if isinstance(model, (MaskedLMModel, ElectraPretrainer)):
            specs = {"mask_ids": self._make_masked_spec(), "mask_weights": self._make_masked_spec("float32")}
            return specs | ({"next_sentence_labels": self._make_spec()} if isinstance(model, BertPretrainer) else {})
        if isinstance(model, BertQuestionAnswerer):
            return {"start_positions": self._make_spec(), "end_positions": self._make_spec()}
        if isinstance(model, BertTokenClassifier):
            return self._make_spec(self.shape.length)
        if isinstance(model, BertClassifier) and model.problem != "single_label":
            return self._make_spec(model.num_classes, dtype="float32")
        return self._make_spec()

    def _make_masked_spec(self, dtype: str = "int32") -> tf.TensorSpec:
        return self._make_spec(self.shape.num_masked, dtype=dtype)

    def _make_spec(self, *sizes: int, dtype: str = "int32") -> tf.TensorSpec:
        return tf.TensorSpec((self.shape.batch_size, *sizes), dtype)


def list_dimensions(model: keras.Model) -> set[int]:
    """Return the sizes of tensor axes that do not depend on the batch."""
    config = get_encoder(model).config
    blocks = -(-config.vocabulary_size // ID_BLOCK)  # ELECTRA looks ids up in blocks
    weights = {size for weight in model.weights for size in weight.shape}
    return weights | {config.max_sequence_length, blocks, ID_BLOCK * blocks}


def choose_default_lengths(max_length: int) -> list[int]:
    """Return those of the lengths 32, 64, 128, 256 and 512 that a model accepts, or its maximum if that is shorter."""
    return [length for length in _LENGTHS if length <= max_length] or [max_length]
