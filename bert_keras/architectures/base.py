"""`BertModel`: base class of the encoder and of every model with a head."""

import functools
import os

import keras

from bert_keras.distribution import DistributedStep
from bert_keras.errors import InputError
from bert_keras.features import ENCODER_INPUTS, ENCODER_OPTIONAL_INPUTS, Features, check_features

SYMBOLIC_INPUTS = (*ENCODER_INPUTS, "segment_ids")  # the features of `inputs` and of `export`
INPUT_SHAPES = dict.fromkeys(SYMBOLIC_INPUTS, (None, None))  # the shapes that `summary` prints


def check_bert_model(model: keras.Model) -> None:
    """Raise `InputError` unless `model` is a bert_keras model."""
    if not isinstance(model, BertModel):
        raise InputError(
            f"the model is a {type(model).__name__}; expected a model of bert_keras: load one with bert_keras.load"
        )


class BertModel(DistributedStep, keras.Model):
    """Keras model that takes and returns dicts of tensors; its constructor creates all weights.

    `fit` and `evaluate` work under every `tf.distribute` strategy, see `bert_keras.distribution`.
    """

    extra_inputs: tuple[str, ...] = ()  # optional features in addition to the encoder's

    def build(self, input_shape: tuple | None = None):
        """Create no weights: constructors create them, and call this for Keras to mark the model as built."""

    @property
    def inputs(self) -> dict:
        """Symbolic inputs, int32 `(B, S)`: `token_ids`, `padding_mask` and `segment_ids`.

        As with a functional Keras model, `keras.Model(model.inputs, ...)` can extend the graph.
        """
        return self._symbolic[0]

    @property
    def outputs(self) -> dict:
        """Symbolic outputs for `inputs`, keyed by name."""
        return self._symbolic[1]

    input = inputs  # functional models have both names
    output = outputs

    @functools.cached_property
    def _symbolic(self) -> tuple[dict, dict]:
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in SYMBOLIC_INPUTS}
        return inputs, self(inputs)

    def compute_output_shape(self, input_shape: tuple | None = None) -> dict:
        """Return the shapes of the outputs, keyed by name, for features of the shapes in `input_shape`."""
        shapes = input_shape or INPUT_SHAPES
        features = {name: keras.KerasTensor(shape, dtype="int32") for name, shape in shapes.items()}
        return {name: value.shape for name, value in self.compute_output_spec(features).items()}

    def compute_output_spec(self, *args, **kwargs):
        """Return symbolic outputs by tracing `call`."""
        # Keras would derive them from `compute_output_shape` and assume the compute dtype for every output, but logits
        # are float32 under every policy
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: list | None = None,
        **kwargs,
    ) -> None:
        """Export with `keras.Model.export`; the signature takes the int32 `(B, S)` features of `inputs`.

        The artifact takes ids and is not compared with the model. `bert_keras.export_model` writes artifacts that take
        text, or ids under Hugging Face names, and runs a parity check on each.

        Args:
            filepath: the folder or file to write.
            format: a format of `keras.Model.export`.
            verbose: as in Keras.
            input_signature: as in Keras. Default: the features of `inputs`, of any batch size and length.
            **kwargs: as in Keras.

        Raises:
            ValueError: Keras does not support the format on this backend.

        Example:
            >>> bk.load("demo/classifier").export("my/saved_model", verbose=False)
        """
        if input_signature is None:
            input_signature = [
                {name: keras.InputSpec(shape=(None, None), dtype="int32", name=name) for name in SYMBOLIC_INPUTS}
            ]
            if keras.backend.backend() == "jax" and format == "tf_saved_model":
                # JAX would treat each None as a different size
                same_lengths = dict.fromkeys(SYMBOLIC_INPUTS, "(batch, length)")
                kwargs.setdefault("jax2tf_kwargs", {"polymorphic_shapes": [same_lengths]})
        super().export(filepath, format=format, verbose=verbose, input_signature=input_signature, **kwargs)

    # Check features before `call`: Keras appends the values of all arguments to errors raised inside `call`
    def __call__(self, inputs: Features, *args, **kwargs):
        self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def stateless_call(
        self, trainable_variables: list, non_trainable_variables: list, inputs: Features, *args, **kwargs
    ):
        """Run `keras.Model.stateless_call` on checked features."""
        self._check_inputs(inputs)
        return super().stateless_call(trainable_variables, non_trainable_variables, inputs, *args, **kwargs)

    def _check_inputs(self, inputs: Features) -> None:
        optional = (*ENCODER_OPTIONAL_INPUTS, *self.extra_inputs)
        check_features(inputs, required=ENCODER_INPUTS, optional=optional, model=type(self).__name__)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike, **head):
        """Build this model with the weights of a checkpoint folder.

        Args:
            folder: any folder that `bert_keras.load` reads, or a Hugging Face folder with a head of another kind.
            **head: arguments of the head (`num_classes`, `labels`, ...). A head of the same kind and size in the
                folder is loaded; otherwise the head is initialized randomly. `dtype`, a Keras dtype policy, is also
                that of the encoder.

        Returns:
            A model of this class.

        Raises:
            InputError: the folder cannot be read, or an argument of the head is missing or unknown.

        Example:
            >>> model = bk.BertClassifier.from_checkpoint("demo/pretrained", num_classes=2, labels=["bad", "good"])
            >>> model.labels
            ('bad', 'good')
        """
        from bert_keras.checkpoints.loading import (
            load_with_head,  # `checkpoints` imports this package, so only when called
        )

        return load_with_head(cls, folder, **head)
