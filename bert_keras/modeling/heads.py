"""What every model with a head shares: an encoder, default losses, and the way labels meet outputs."""

import keras
from keras import ops

from bert_keras.checks import check_integer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling.base import BertModel
from bert_keras.modeling.encoder import BertEncoder
from bert_keras.modeling.layers import RandomNormal, flat_rows

_EXTRA_OUTPUTS = ("hidden_states", "attention_scores")


class HeadModel(BertModel):
    """A model made of a `BertEncoder` and a head. It takes and gives dicts.

    `compile(optimizer)` alone chooses the loss and the metrics of the head; any Keras loss
    and metrics may be given instead, as for any Keras model.

    Every head also takes `return_hidden_states` and `return_attention_scores` when called,
    and then hands on what the encoder gives.
    """

    def __init__(self, encoder: BertEncoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder

    def compile(
        self,
        optimizer="rmsprop",
        loss="auto",
        *,
        loss_weights=None,
        metrics="auto",
        accumulation_steps: int = 1,
        gradient_checkpointing: bool = False,
        skip_padding: bool = False,
        **kwargs,
    ):
        """As `keras.Model.compile`; "auto" is the loss, or the metrics, that belong to this head.

        `accumulation_steps`: into how many parts each replica cuts its batch, to need less memory. The step is
        that of the whole batch.
        `gradient_checkpointing`: need less memory by computing the inside of each block twice, see `BertEncoder`. The
        step is the same.
        `skip_padding`: in training compute real tokens alone, see `BertEncoder`. The step is the same. Not for XLA.
        """
        check_integer("accumulation_steps", accumulation_steps)
        if accumulation_steps > 1 and not self.divides_steps:
            raise InputError(
                f"accumulation_steps is {accumulation_steps}, which needs the TensorFlow backend: set KERAS_BACKEND, "
                "or give the optimizer gradient_accumulation_steps"
            )
        for name, wanted in {"gradient_checkpointing": gradient_checkpointing, "skip_padding": skip_padding}.items():
            if wanted and not self.divides_steps:
                raise InputError(f"{name} needs the TensorFlow backend: set KERAS_BACKEND, or leave it out")
        if skip_padding and kwargs.setdefault("jit_compile", False):
            raise InputError(
                "skip_padding makes shapes that XLA cannot know before: set jit_compile=False, or leave it out"
            )
        self.accumulation_steps = accumulation_steps
        for encoder in self.encoders():
            encoder.gradient_checkpointing = gradient_checkpointing
            encoder.skips_padding = skip_padding
        if isinstance(loss, str) and loss == "auto":
            loss, loss_weights = self.default_loss(), loss_weights or self.default_loss_weights()
        if isinstance(metrics, str) and metrics == "auto":
            kwargs.setdefault("weighted_metrics", self.default_metrics())
            metrics = None
        super().compile(optimizer, loss, loss_weights=loss_weights, metrics=metrics, **kwargs)

    def encoders(self) -> list[BertEncoder]:
        """Returns every encoder that a step runs."""
        return [self.encoder]

    def compile_from_config(self, config):
        """Compiles a loaded `.keras` model as it was; Keras asks for this where `compile` is overridden."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def default_loss(self):
        """Returns the loss, or a dict of losses by output name."""
        raise InputError(f"{type(self).__name__} has no loss of its own: name one in compile(loss=...)")

    def default_loss_weights(self):
        """Returns the weights of the losses by output name, or None for equal ones."""
        return None

    def default_metrics(self):
        """Returns fresh metrics, as a list or a dict by output name."""
        return []

    def match_labels(self, x, y, outputs):
        """Returns (labels, outputs) with the same keys, as Keras losses want them."""
        del x
        return y, outputs

    def label_weights(self, x, y, sample_weight):
        """Returns what each label counts, by output, floats of the labels' shape; known before the model runs."""
        del x, y
        return sample_weight

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, *self._matched(x, y, y_pred, sample_weight), training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, *self._matched(x, y, y_pred, sample_weight))

    def _matched(self, x, y, y_pred, sample_weight):
        outputs = {name: value for name, value in y_pred.items() if name not in _EXTRA_OUTPUTS}
        return *self.match_labels(x, y, outputs), self.label_weights(x, y, sample_weight)

    def encode(self, inputs, training=None, **returns):
        """Runs the encoder on the features that are its own and returns its outputs."""
        own = {name: value for name, value in inputs.items() if name not in self.extra_inputs}
        return self.encoder(own, training=training, **returns)

    def encode_at(self, positions, inputs, training=None, **returns):
        """Returns the encoder's vectors (B, R, D) at `positions` (B, R), and what else the caller asked for."""
        if not any(returns.values()):
            return self.encode(inputs, training, read_positions=positions)["sequence_output"], {}
        encoded = self.encode(inputs, training, **returns)
        return rows_at(positions, encoded["sequence_output"]), handed_on(encoded)

    def get_config(self):
        return {**super().get_config(), "encoder": keras.saving.serialize_keras_object(self.encoder)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        encoder = keras.saving.deserialize_keras_object(config["encoder"], custom_objects=custom_objects)
        return cls(**{**config, "encoder": encoder})


def output_layer(config: BertConfig, units: int, name: str) -> keras.layers.Dense:
    """A built dense layer (D -> units) that computes logits in float32 under every policy.

    It is drawn from a whole normal, as transformers does. TensorFlow's truncated one, which Google's code takes, has
    0.88 of the deviation that it is given, and a new head on a trained encoder learns from it more slowly.
    """
    drawn = RandomNormal(stddev=config.initializer_range)
    layer = keras.layers.Dense(units, kernel_initializer=drawn, name=name, dtype="float32")
    layer.build((None, config.hidden_dim))
    return layer


def handed_on(encoded: dict) -> dict:
    """Returns what the caller asked the encoder for, to be added to a head's outputs."""
    return {name: encoded[name] for name in _EXTRA_OUTPUTS if name in encoded}


def rows_at(positions, sequence):
    """Returns the vectors (B, R, D) at `positions` (B, R) of a sequence (B, S, D)."""
    batch, length, width = ops.shape(sequence)
    rows = ops.take(ops.reshape(sequence, (-1, width)), flat_rows(positions, length), axis=0)
    return ops.reshape(rows, (batch, -1, width))


def row_weights(labels, sample_weight):
    """Returns a weight (B,) for each row: 1 unless `sample_weight`, (B,) or (B, 1), says otherwise."""
    if sample_weight is None:
        return ops.ones((ops.shape(labels)[0],), "float32")
    return ops.reshape(ops.cast(sample_weight, "float32"), (-1,))


def first_positions(inputs):
    """Returns the position of [CLS] in each example, 0, as (B, 1)."""
    return ops.zeros((ops.shape(inputs["token_ids"])[0], 1), dtype="int32")


def check_pooler(encoder: BertEncoder, taker: str) -> None:
    """Raises `InputError` if the encoder has no pooler."""
    if encoder.pooler is None:
        raise InputError(f"{taker} reads pooled_output, but its encoder has no pooler: build BertEncoder(pooler=True)")


def check_labels(labels, num_classes: int) -> tuple[str, ...] | None:
    """Checks class names against their number; None stays None."""
    if labels is None:
        return None
    labels = tuple(str(label) for label in labels)
    if len(labels) != num_classes or len(set(labels)) != num_classes:
        raise InputError(
            f"{len(labels)} labels ({len(set(labels))} different ones) were given for {num_classes} classes: "
            "give each class one name of its own"
        )
    return labels
