"""A model as an ONNX file, for onnxruntime and what is built on it."""

import os

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder, get_family, get_variables
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES
from bert_keras.export.onnx.onnx_file import write_onnx_file
from bert_keras.export.onnx.onnx_rewriting import rewritten
from bert_keras.features import to_huggingface_names
from bert_keras.modeling import BertEmbedder
from bert_keras.publishing import publish_file

OPSET = 18  # the newest that tf2onnx 1.17 writes, with LayerNormalization (17); onnxruntime reads it since 1.14 (2023)
AXES = ("batch", "sequence")


def write_onnx(model: keras.Model, path: str | os.PathLike) -> None:
    """Writes a model as one ONNX file of standard operators.

    Inputs: `input_ids`, `attention_mask` and `token_type_ids`, int64 (batch, sequence), both axes of any size.
    Outputs: by their names at the border, float32. An embedder gives `sentence_embedding` and `last_hidden_state`,
    which optimum and transformers.js pool themselves. Weights have Hugging Face's names; matrices are (in, out).

    tf2onnx copies constants many times over: a frozen graph of 165 MB took it 12.5 GB. So it is given a graph into
    which the weights are fed, and they are put in their places afterwards: base, 438 MB, takes 6 s and 0.2 GB.

    Args:
        model: an encoder, with a head or without.
        path: the file; it appears whole or not at all.

    Raises:
        MissingExtraError: tf2onnx is not installed.
        ParityError: the converter knows no ONNX for an operation, or lost an input; nothing is written.
    """
    variables = named_variables(model)
    converted = rewritten(_convert(model, variables))
    _check(converted, variables)
    weights = _take_weights(converted.graph, variables)
    with publish_file(path) as staging:
        write_onnx_file(staging, converted, weights)


def named_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns a model's variables by Hugging Face's names, and by their Keras paths where it has none."""
    encoder, ours = get_encoder(model), get_variables(model)
    table = list_weights(
        type(model).__name__, encoder.config, pooler=encoder.pooler is not None, family=get_family(model)
    )
    names = {id(ours[name.ours]): name.huggingface or name.ours for name in table}
    return {names.get(id(variable), variable.path): variable for variable in model.variables}


def _convert(model: keras.Model, variables: dict[str, keras.Variable]):
    """Returns an `onnx.ModelProto` whose weights are inputs, too."""
    ids = [tf.TensorSpec([None, None], tf.int64, name=name) for name in HUGGINGFACE_NAMES.values()]
    weights = [tf.TensorSpec(variable.shape, variable.dtype, name=name) for name, variable in variables.items()]
    answers = {}

    def from_ids_and_weights(*tensors):
        ids_given, weights_given = tensors[: len(ids)], tensors[len(ids) :]
        features = {name: tf.cast(given, tf.int32) for name, given in zip(HUGGINGFACE_NAMES, ids_given, strict=True)}
        with keras.StatelessScope(zip(variables.values(), weights_given, strict=True)):
            answers.update(_answers(model, features))
        return answers

    function = tf.function(from_ids_and_weights, autograph=False)
    converted, _ = _tf2onnx().convert.from_function(function, [*ids, *weights], opset=OPSET)
    _put_in_order(converted.graph, list(answers))
    for info in [*converted.graph.input, *converted.graph.output]:
        for axis, size in zip(AXES, info.type.tensor_type.shape.dim):  # noqa: B905  an output may have more axes
            if not size.HasField("dim_value"):
                size.dim_param = axis
    return converted


def _answers(model: keras.Model, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    if not isinstance(model, BertEmbedder):
        return to_huggingface_names(model(features, training=False))
    outputs = model(features, training=False, return_hidden_states=True)
    return to_huggingface_names({"sequence_output": outputs["hidden_states"][-1], "embedding": outputs["embedding"]})


def _put_in_order(graph, names: list[str]) -> None:
    """Puts outputs in the model's order, since some read them by number and TensorFlow sorts them."""
    outputs = sorted(graph.output, key=lambda info: names.index(info.name))
    graph.ClearField("output")
    graph.output.extend(outputs)


def _check(converted, variables: dict[str, keras.Variable]) -> None:
    """Raises `ParityError` unless runtimes know every operation, and all inputs are there."""
    import onnx

    unknown = {node.op_type for node in converted.graph.node if node.domain or not _is_known(node.op_type)}
    if unknown:
        raise ParityError(
            f"tf2onnx has no ONNX for {', '.join(sorted(unknown))}, so nothing was written: "
            "write that layer with operations that ONNX has"
        )
    ids = sorted({info.name for info in converted.graph.input} - set(variables))
    if ids != sorted(HUGGINGFACE_NAMES.values()):
        raise ParityError(f"tf2onnx made a graph with the inputs {ids}; expected {sorted(HUGGINGFACE_NAMES.values())}")
    onnx.checker.check_model(converted)


def _is_known(operation: str) -> bool:
    import onnx

    try:
        onnx.defs.get_schema(operation, OPSET)
    except onnx.defs.SchemaError:
        return False
    return True


def _take_weights(graph, variables: dict[str, keras.Variable]) -> dict[str, keras.Variable]:
    """Takes the weights out of a graph's inputs, and returns those that it reads: no seeds of dropout, for example."""
    read = {name for node in graph.node for name in node.input}
    ids = [info for info in graph.input if info.name not in variables]
    graph.ClearField("input")
    graph.input.extend(ids)
    return {name: variable for name, variable in variables.items() if name in read}


def _tf2onnx():
    try:
        import tf2onnx
    except (ImportError, AttributeError) as error:  # AttributeError: a numpy newer than it knows
        raise MissingExtraError("writing ONNX", "tf2onnx", "onnx") from error
    return tf2onnx
