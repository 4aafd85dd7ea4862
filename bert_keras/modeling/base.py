"""What the encoder and every model with a head share: checked features, and the door to checkpoint folders.

Folders are read in `bert_keras/checkpoints`, a row below this one in the direction rule,
so that folder hands its reader in here when it is imported (the public names do that).
"""

import os

import keras

from bert_keras.distribution import DividedStep
from bert_keras.errors import InputError
from bert_keras.features import ENCODER_INPUTS, ENCODER_OPTIONAL_INPUTS, check_features

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

    # Keras prints all arguments of a `call` that raises, so the features are checked before it
    def __call__(self, inputs, *args, **kwargs):
        self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def stateless_call(self, trainable_variables, non_trainable_variables, inputs, *args, **kwargs):
        self._check_inputs(inputs)
        return super().stateless_call(trainable_variables, non_trainable_variables, inputs, *args, **kwargs)

    def _check_inputs(self, inputs) -> None:
        optional = (*ENCODER_OPTIONAL_INPUTS, *self.extra_inputs)
        check_features(inputs, required=ENCODER_INPUTS, optional=optional, taker=type(self).__name__)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike, **head):
        """Builds this model on the weights of a checkpoint folder.

        Args:
            folder: any folder that `bert_keras.load` reads.
            **head: the head's own arguments (`num_classes`, `labels`, ...). A head of the
                same kind and size in the folder is kept; another one starts afresh.

        Raises:
            InputError: the folder cannot be read, or the head's arguments are missing.
        """
        if not _readers:
            raise RuntimeError("import bert_keras.checkpoints first: it reads the folders")
        return _readers[0](cls, folder, **head)
