"""A model as a graph from token ids to outputs, under Hugging Face names: the basis of every artifact."""

import functools
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from bert_keras.features import FEATURES, to_huggingface_names

ID_INPUTS = ("token_ids", "padding_mask", "segment_ids")
HUGGINGFACE_NAMES = {name: FEATURES[name].huggingface_name for name in ID_INPUTS}

Outputs = dict[str, tf.Tensor]


def call_model(model: keras.Model, features: Mapping[str, tf.Tensor]) -> Outputs:
    """Return a model's outputs in inference mode, keyed by our names."""
    return model(features, training=False)


def run_model(model: keras.Model, features: Mapping[str, tf.Tensor], *, with_hidden_states: bool = False) -> Outputs:
    """Return a model's outputs in inference mode, keyed by Hugging Face name.

    Args:
        model: an encoder, with or without a head.
        features: its inputs.
        with_hidden_states: for an embedder, whether to return its encoder's last hidden states, too.
    """
    if not with_hidden_states:
        return to_huggingface_names(call_model(model, features))
    outputs = model(features, training=False, return_hidden_states=True)
    return to_huggingface_names({"sequence_output": outputs.pop("hidden_states")[-1], **outputs})


def build_ids_function(
    model: keras.Model,
    *,
    batch_size: int | None = None,
    length: int | None = None,
    convert_outputs: Callable[[Outputs], Outputs] = dict,
    run: Callable[[Mapping[str, tf.Tensor]], Outputs] | None = None,
) -> tf.types.experimental.ConcreteFunction:
    """Trace the function from `input_ids`, `attention_mask` and `token_type_ids` to a model's outputs.

    Args:
        model: an encoder, with or without a head.
        batch_size: B; None: any.
        length: S; None: any length that the model accepts.
        convert_outputs: applied to the outputs.
        run: runs the model on features; by default `call_model`.
    """
    run = run or functools.partial(call_model, model)

    def from_ids(**inputs: tf.Tensor) -> Outputs:
        features = {name: inputs[theirs] for name, theirs in HUGGINGFACE_NAMES.items()}
        return convert_outputs(to_huggingface_names(run(features)))

    specs = {name: tf.TensorSpec([batch_size, length], tf.int32, name=name) for name in HUGGINGFACE_NAMES.values()}
    return tf.function(from_ids, autograph=False).get_concrete_function(**specs)
