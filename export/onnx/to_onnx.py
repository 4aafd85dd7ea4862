"""Convert a model to an ONNX file, for onnxruntime and the tools that are built on it."""

from __future__ import annotations

import os
import types
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_variables, list_model_weights
from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES, run_model
from bert_keras.export.onnx.onnx_file import write_onnx_file
from bert_keras.export.onnx.onnx_rewriting import rewrite_model
from bert_keras.modeling import BertEmbedder
from bert_keras.publishing import publish_file

if TYPE_CHECKING:
    import onnx

OPSET = 18  # the newest that tf2onnx 1.17 supports; has LayerNormalization (17); needs onnxruntime 1.14 (2023) or later
AXES = ("batch", "sequence")


def write_onnx(model: keras.Model, path: str | os.PathLike) -> None:
    """Write a model as one ONNX file of standard operators.

    The inputs are `input_ids`, `attention_mask` and `token_type_ids`, int64 (batch, sequence), both axes of any size.
    The outputs are float32 and have Hugging Face names. An embedder has the outputs `sentence_embedding` and
    `last_hidden_state`, which optimum and transformers.js pool themselves. Weights have Hugging Face names; matrices
    are (in, out).

    tf2onnx copies constants many times: it needed 12.5 GB for a frozen graph of 165 MB. So the weights are inputs of
    the graph that it converts, and are added afterwards: base, 438 MB, takes 6 s and 0.2 GB.

    Args:
        model: an encoder, with or without a head.
        path: the file; it appears complete or not at all.

    Raises:
        MissingExtraError: tf2onnx is not installed.
        ParityError: ONNX has no equivalent of an operation, or the converter lost an input. Nothing is written.
    """
    variables = name_variables(model)
    converted = rewrite_model(_convert(model, variables))
    _check_converted(converted, variables)
    weights = _remove_weights_from_inputs(converted.graph, variables)
    with publish_file(path) as staging:
        write_onnx_file(staging, converted, weights)


def name_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Return a model's variables, keyed by Hugging Face name, or by Keras path if there is no such name."""
    ours = get_variables(model)
    names = {id(ours[name.ours]): name.huggingface or name.ours for name in list_model_weights(model)}
    return {names.get(id(variable), variable.path): variable for variable in model.variables}


def _convert(model: keras.Model, variables: dict[str, keras.Variable]) -> onnx.ModelProto:
    """Convert a model to ONNX with its weights as additional inputs."""
    ids = [tf.TensorSpec([None, None], tf.int64, name=name) for name in HUGGINGFACE_NAMES.values()]
    weights = [tf.TensorSpec(variable.shape, variable.dtype, name=name) for name, variable in variables.items()]
    outputs = {}

    def from_ids_and_weights(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        id_tensors, weight_tensors = tensors[: len(ids)], tensors[len(ids) :]
        features = {name: tf.cast(values, tf.int32) for name, values in zip(HUGGINGFACE_NAMES, id_tensors, strict=True)}
        with keras.StatelessScope(zip(variables.values(), weight_tensors, strict=True)):
            outputs.update(run_model(model, features, with_hidden_states=isinstance(model, BertEmbedder)))
        return outputs

    function = tf.function(from_ids_and_weights, autograph=False)
    converted, _ = _import_tf2onnx().convert.from_function(function, [*ids, *weights], opset=OPSET)
    _sort_outputs(converted.graph, list(outputs))
    for info in [*converted.graph.input, *converted.graph.output]:
        for axis, size in zip(AXES, info.type.tensor_type.shape.dim):  # noqa: B905  outputs may have more axes
            if not size.HasField("dim_value"):
                size.dim_param = axis
    return converted


def _sort_outputs(graph: onnx.GraphProto, names: list[str]) -> None:
    """Restore the model's order of outputs: TensorFlow sorts them by name, and some clients read them by position."""
    outputs = sorted(graph.output, key=lambda info: names.index(info.name))
    graph.ClearField("output")
    graph.output.extend(outputs)


def _check_converted(converted: onnx.ModelProto, variables: dict[str, keras.Variable]) -> None:
    """Raise `ParityError` if an operation is not standard ONNX or an input is missing."""
    import onnx

    unknown = {node.op_type for node in converted.graph.node if node.domain or not _is_standard(node.op_type)}
    if unknown:
        raise ParityError(
            f"tf2onnx cannot convert {', '.join(sorted(unknown))} to ONNX, so nothing was written: build that layer "
            "from operations that ONNX has"
        )
    ids = sorted({info.name for info in converted.graph.input} - set(variables))
    if ids != sorted(HUGGINGFACE_NAMES.values()):
        raise ParityError(
            f"tf2onnx returned a graph with the inputs {ids}; expected {sorted(HUGGINGFACE_NAMES.values())}"
        )
    onnx.checker.check_model(converted)


def _is_standard(operation: str) -> bool:
    import onnx

    try:
        onnx.defs.get_schema(operation, OPSET)
    except onnx.defs.SchemaError:
        return False
    return True


def _remove_weights_from_inputs(
    graph: onnx.GraphProto, variables: dict[str, keras.Variable]
) -> dict[str, keras.Variable]:
    """Remove the weights from a graph's inputs and return those that it uses; it does not use seeds of dropout."""
    used = {name for node in graph.node for name in node.input}
    ids = [info for info in graph.input if info.name not in variables]
    graph.ClearField("input")
    graph.input.extend(ids)
    return {name: variable for name, variable in variables.items() if name in used}


def _import_tf2onnx() -> types.ModuleType:
    try:
        import tf2onnx
    except (ImportError, AttributeError) as error:  # AttributeError: with a numpy that is too new for it
        raise MissingExtraError("writing ONNX", "tf2onnx", "onnx") from error
    return tf2onnx
