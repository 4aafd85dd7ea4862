"""What the encoder and every model with a head share: checked features, and the door to checkpoint folders.

Folders are read in `bert_keras/checkpoints`, a row below this one in the direction rule,
so that folder hands its reader in here when it is imported (the public names do that).
"""

import functools
import os

import keras

from bert_keras.distribution import DividedStep
from bert_keras.errors import InputError
from bert_keras.features import ENCODER_INPUTS, ENCODER_OPTIONAL_INPUTS, check_features

SYMBOLIC_INPUTS = (*ENCODER_INPUTS, "segment_ids")  # the features of `inputs` and of `export`
INPUT_SHAPES = dict.fromkeys(SYMBOLIC_INPUTS, (None, None))  # what `build` is told, for `summary`

_readers = []


def read_checkpoints_with(reader) -> None:
    """Installs `reader(model_class, folder, **head)`; the last one installed is used."""
    _readers[:] = [reader]


def check_bert_model(model: keras.Model) -> None:
    """Raises `InputError` for a Keras model that is none of ours."""
    if not isinstance(model, BertModel):
        raise InputError(f"a {type(model).__name__} was given; expected a model of bert_keras: load a folder with it")


class BertModel(DividedStep, keras.Model):
    """A Keras model that takes and gives dicts of features, and whose weights exist once it is constructed.

    `fit` and `evaluate` work under every `tf.distribute` strategy, see `bert_keras.distribution`.
    """

    extra_inputs: tuple[str, ...] = ()  # optional features beside the encoder's

    def build(self, input_shape=None):
        """Nothing is left to build: every layer is built where it is made."""

    @property
    def inputs(self) -> dict:
        """The symbolic inputs, int32 (B, S) by name: `token_ids`, `padding_mask` and `segment_ids`.

        As with a functional Keras model, `keras.Model(model.inputs, ...)` builds on them.
        """
        return self._symbolic[0]

    @property
    def outputs(self) -> dict:
        """The symbolic outputs that belong to `inputs`, by name."""
        return self._symbolic[1]

    input = inputs  # as in functional models, where the structure has this name
    output = outputs

    @functools.cached_property
    def _symbolic(self) -> tuple[dict, dict]:
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in SYMBOLIC_INPUTS}
        return inputs, self(inputs)

    def compute_output_shape(self, input_shape=None) -> dict:
        """Return the shapes of the outputs, by name, for features of the shapes `input_shape`, by name."""
        shapes = input_shape or INPUT_SHAPES
        features = {name: keras.KerasTensor(shape, dtype="int32") for name, shape in shapes.items()}
        return {name: value.shape for name, value in self.compute_output_spec(features).items()}

    def compute_output_spec(self, *args, **kwargs):
        # by tracing `call`: Keras derives it from `compute_output_shape` where there is one, and takes every output for
        # one of the compute dtype
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs) -> None:
        """As `keras.Model.export`; the signature takes `token_ids`, `padding_mask` and `segment_ids`, int32 (B, S).

        The artifact takes ids and is compared with nothing. `bert_keras.export` writes artifacts that take text, or
        ids under Hugging Face names, and compares each with its checkpoint.
        """
        if input_signature is None:
            input_signature = [
                {name: keras.InputSpec(shape=(None, None), dtype="int32", name=name) for name in SYMBOLIC_INPUTS}
            ]
            if keras.backend.backend() == "jax" and format == "tf_saved_model":
                # JAX takes each None for a length of its own
                same_lengths = dict.fromkeys(SYMBOLIC_INPUTS, "(batch, length)")
                kwargs.setdefault("jax2tf_kwargs", {"polymorphic_shapes": [same_lengths]})
        super().export(filepath, format=format, verbose=verbose, input_signature=input_signature, **kwargs)

    # Keras prints all arguments of a `call` that raises, so the features are checked before it
    def __call__(self, inputs, *args, **kwargs):
        self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def stateless_call(self, trainable_variables, non_trainable_variables, inputs, *args, **kwargs):
        self._check_inputs(inputs)
        return super().stateless_call(trainable_variables, non_trainable_variables, inputs, *args, **kwargs)

    def _check_inputs(self, inputs) -> None:
        optional = (*ENCODER_OPTIONAL_INPUTS, *self.extra_inputs)
        check_features(inputs, required=ENCODER_INPUTS, optional=optional, model=type(self).__name__)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike, **head):
        """Builds this model on the weights of a checkpoint folder.

        Args:
            folder: any folder that `bert_keras.load` reads, or one of Hugging Face with a head that is none of ours.
            **head: the head's own arguments (`num_classes`, `labels`, ...). A head of the
                same kind and size in the folder is kept; another one starts afresh.

        Raises:
            InputError: the folder cannot be read, or the head's arguments are missing.
        """
        if not _readers:
            raise RuntimeError("import bert_keras.checkpoints first: it reads the folders")
        return _readers[0](cls, folder, **head)
