"""A model as one graph from ids to logits, under the names of the border: what every artifact begins with."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from bert_keras.features import FEATURES, to_huggingface_names

ID_INPUTS = ("token_ids", "padding_mask", "segment_ids")
HUGGINGFACE_NAMES = {name: FEATURES[name].huggingface_name for name in ID_INPUTS}

Outputs = Mapping[str, tf.Tensor]


def logits_of(model: keras.Model, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns what a model gives for features, in inference, under the names of the border."""
    return to_huggingface_names(model(features, training=False))


def ids_function(
    model: keras.Model,
    *,
    batch_size: int | None = None,
    length: int | None = None,
    answers: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]] = dict,
):
    """Returns the concrete function from `input_ids`, `attention_mask` and `token_type_ids` to a model's outputs.

    Args:
        model: an encoder, with a head or without.
        batch_size: B; None: any.
        length: S; None: any up to what the model reads.
        answers: what to make of the outputs, by their names at the border; as they are unless given.
    """

    def from_ids(**given):
        return answers(logits_of(model, {name: given[theirs] for name, theirs in HUGGINGFACE_NAMES.items()}))

    specs = {
        theirs: tf.TensorSpec([batch_size, length], tf.int32, name=theirs) for theirs in HUGGINGFACE_NAMES.values()
    }
    return tf.function(from_ids, autograph=False).get_concrete_function(**specs)
