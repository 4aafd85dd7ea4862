"""`HeadModel`: base class of the models with a head: an encoder, default losses, and labels matched to outputs."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.architectures.base import BertModel
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.layers import RandomNormal
from bert_keras.architectures.sequence_layout import compute_flat_indices
from bert_keras.checks import check_integer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.features import Features, Tensor
from bert_keras.files import to_plain

_EXTRA_OUTPUTS = ("hidden_states", "attention_scores")


class HeadModel(BertModel):
    """A `BertEncoder` with a head. Takes and returns dicts.

    `compile(optimizer)` uses the default loss and metrics of the head; as with any Keras model, others can be passed.
    Every head accepts the call arguments `return_hidden_states` and `return_attention_scores` of the encoder and
    returns those outputs too.
    """

    has_vectors: bool = False  # whether its output is a vector per text, whose distance to another one matters
    config_names: tuple[str, ...] = ()  # of the arguments besides the encoder; attributes with these names hold them

    def __init__(self, encoder: BertEncoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = "auto",
        *,
        loss_weights: dict | None = None,
        metrics: Any = "auto",
        accumulation_steps: int = 1,
        gradient_checkpointing: bool = False,
        unpad: bool = False,
        dropout: bool = True,
        **kwargs,
    ):
        """Configure the model for training, as `keras.Model.compile` does.

        Args:
            optimizer: as in Keras.
            loss: as in Keras; "auto" is the default loss of the head.
            loss_weights: as in Keras; default: those of the head.
            metrics: as in Keras; "auto" are the default metrics of the head.
            accumulation_steps: number of micro-batches that each replica splits its batch into, to save memory. The
                update is that of the whole batch.
            gradient_checkpointing: save memory by computing the inside of each block twice, see `BertEncoder`. The
                update is the same.
            unpad: compute only real tokens during training, see `BertEncoder`. The update is the same. Not with XLA.
            dropout: whether training applies dropout. With False the config keeps its rates, for a later training.
            **kwargs: further arguments of `keras.Model.compile`.

        Raises:
            InputError: an option is out of range, or needs the TensorFlow backend or a step without XLA.

        Example:
            >>> model = bk.BertClassifier.from_checkpoint("demo/pretrained", num_classes=2)
            >>> model.compile("adam", accumulation_steps=2, unpad=True)
        """
        check_integer("accumulation_steps", accumulation_steps)
        if accumulation_steps > 1 and not self.has_tensorflow_step:
            raise InputError(
                f"accumulation_steps is {accumulation_steps}, which needs the TensorFlow backend: set "
                "KERAS_BACKEND=tensorflow, or pass gradient_accumulation_steps to the optimizer"
            )
        for name, is_on in {"gradient_checkpointing": gradient_checkpointing, "unpad": unpad}.items():
            if is_on and not self.has_tensorflow_step:
                raise InputError(f"{name} needs the TensorFlow backend: set KERAS_BACKEND=tensorflow, or omit it")
        # Keras's default, "auto", could choose XLA
        if unpad and kwargs.setdefault("jit_compile", False):
            raise InputError(
                "unpad makes shapes that vary, which XLA cannot compile: set jit_compile=False, or omit it"
            )
        self.accumulation_steps = accumulation_steps
        for encoder in self.encoders():
            encoder.gradient_checkpointing = gradient_checkpointing
            encoder.unpad_in_training = unpad
            encoder.dropout_in_training = dropout
        if isinstance(loss, str) and loss == "auto":
            loss, loss_weights = self.default_loss(), loss_weights or self.default_loss_weights()
        if isinstance(metrics, str) and metrics == "auto":
            kwargs.setdefault("weighted_metrics", self.default_metrics())
            metrics = None
        super().compile(optimizer, loss, loss_weights=loss_weights, metrics=metrics, **kwargs)

    def encoders(self) -> list[BertEncoder]:
        """Return all encoders that a training step runs."""
        return [self.encoder]

    def compile_from_config(self, config: dict):
        """Compile a loaded `.keras` model as it was saved; Keras requires this where `compile` is overridden."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def default_loss(self):
        """Return the default loss, or a dict of losses keyed by output name."""
        raise InputError(f"{type(self).__name__} has no default loss: pass one to compile(loss=...)")

    def default_loss_weights(self):
        """Return the loss weights keyed by output name; None for equal weights."""
        return None

    def default_metrics(self):
        """Return new metrics, as a list or a dict keyed by output name."""
        return []

    def match_labels(self, x: Tensor, y: Any, outputs: dict):
        """Return (labels, outputs) with the same keys, as Keras losses need them."""
        del x
        return y, outputs

    def label_weights(self, x: Tensor, y: Any, sample_weight: Tensor | None):
        """Return the weight of each label, keyed by output; computed before the model runs."""
        del x, y
        return sample_weight

    def compute_loss(
        self,
        x: Features | None = None,
        y: Any = None,
        y_pred: dict | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ):
        """Compute the loss of matched labels and outputs."""
        return super().compute_loss(x, *self._matched(x, y, y_pred, sample_weight), training)

    def compute_metrics(self, x: Tensor, y: Any, y_pred: Tensor, sample_weight: Tensor | None = None):
        """Update the metrics with matched labels and outputs."""
        return super().compute_metrics(x, *self._matched(x, y, y_pred, sample_weight))

    def _matched(self, x: Tensor, y: Any, y_pred: Tensor, sample_weight: Tensor | None):
        outputs = {name: value for name, value in y_pred.items() if name not in _EXTRA_OUTPUTS}
        return *self.match_labels(x, y, outputs), self.label_weights(x, y, sample_weight)

    def encode(self, inputs: Features, training: bool | None = None, **returns):
        """Run the encoder on its features and return its outputs."""
        own = {name: value for name, value in inputs.items() if name not in self.extra_inputs}
        return self.encoder(own, training=training, **returns)

    def encode_at(self, positions: Tensor, inputs: Features, training: bool | None = None, **returns):
        """Return the encoder's vectors `(B, R, D)` at `positions` `(B, R)`, and the extra outputs asked for."""
        if not any(returns.values()):
            return self.encode(inputs, training, query_positions=positions)["sequence_output"], {}
        encoded = self.encode(inputs, training, **returns)
        return gather_positions(encoded["sequence_output"], positions), select_extra_outputs(encoded)

    def get_config(self):
        """Return the constructor arguments as plain values."""
        arguments = {name: to_plain(getattr(self, name)) for name in self.config_names}
        return {**super().get_config(), "encoder": keras.saving.serialize_keras_object(self.encoder), **arguments}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None):
        """Create an instance from `get_config`."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"], custom_objects=custom_objects)
        return cls(**{**config, "encoder": encoder})


def make_output_layer(config: BertConfig, units: int, name: str) -> keras.layers.Dense:
    """Return a built dense layer `(D -> units)` that computes float32 logits under every dtype policy.

    Its kernel is drawn from a normal that is not truncated, as in transformers. TensorFlow's truncated normal, which
    Google's code uses, has 0.88 of the nominal deviation, and a new head on a trained encoder then learns more slowly.
    """
    initializer = RandomNormal(stddev=config.initializer_range)
    layer = keras.layers.Dense(units, kernel_initializer=initializer, name=name, dtype="float32")
    layer.build((None, config.hidden_dim))
    return layer


def select_extra_outputs(encoded: dict) -> dict:
    """Return the encoder outputs that a head returns in addition to its own."""
    return {name: encoded[name] for name in _EXTRA_OUTPUTS if name in encoded}


def gather_positions(sequence_output: Tensor, positions: Tensor):
    """Return the vectors `(B, R, D)` at `positions` `(B, R)` of `sequence_output` `(B, S, D)`."""
    batch, length, width = ops.shape(sequence_output)
    vectors = ops.take(ops.reshape(sequence_output, (-1, width)), compute_flat_indices(positions, length), axis=0)
    return ops.reshape(vectors, (batch, -1, width))


def make_example_weights(labels: Tensor, sample_weight: Tensor | None):
    """Return a weight per example `(B,)`: `sample_weight`, `(B,)` or `(B, 1)`, or ones."""
    if sample_weight is None:
        return ops.ones((ops.shape(labels)[0],), "float32")
    return ops.reshape(ops.cast(sample_weight, "float32"), (-1,))


def make_cls_positions(inputs: Features):
    """Return the position of [CLS] in each sequence, 0, as `(B, 1)`."""
    return ops.zeros((ops.shape(inputs["token_ids"])[0], 1), dtype="int32")


def check_labels(labels: Sequence[str] | None, num_classes: int) -> tuple[str, ...] | None:
    """Check class names against the number of classes and return them as strings; None stays None."""
    if labels is None:
        return None
    labels = tuple(str(label) for label in labels)
    if len(labels) != num_classes or len(set(labels)) != num_classes:
        raise InputError(
            f"there are {len(labels)} labels ({len(set(labels))} different) for {num_classes} classes; expected one "
            "distinct label per class: change labels or num_classes"
        )
    return labels
