"""Convert a model to an ONNX file, and write the folder that transformers.js, optimum and others open."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_variables, list_model_weights
from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.export_job import write_description
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES, run_model
from bert_keras.export.onnx.onnx_patterns import rewrite_model
from bert_keras.heads.known_heads import get_head
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import publish_file

if TYPE_CHECKING:
    import onnx


OPSET = 18  # the newest that tf2onnx 1.17 supports; has LayerNormalization (17); needs onnxruntime 1.14 (2023) or later
AXES = ("batch", "sequence")
FLOAT32, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"  # transformers.js's names for "fp32" and "q8"
_LENGTH_DELIMITED = 2  # the wire type of a message or bytes


def write_onnx_folder(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    task: Mapping[str, object] | None = None,
) -> None:
    """Write a model as ONNX together with its tokenizer and configuration.

    The files are `onnx/model.onnx`; `config.json` with the labels; `vocab.txt`, `tokenizer.json` and
    `tokenizer_config.json`; and for an embedder `modules.json` and the files that it refers to.

    The arguments are those of `write_description`.

    Raises:
        MissingExtraError: tf2onnx is not installed.
        ParityError: the model cannot be converted.
    """
    write_onnx(model, pathlib.Path(folder) / FLOAT32)
    write_description(model, tokenizer, folder, task=task)


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
    ours = get_variables(model)
    names = {id(ours[name.ours]): name.huggingface or name.ours for name in list_model_weights(model)}
    variables = {names.get(id(variable), variable.path): variable for variable in model.variables}
    converted = rewrite_model(_convert(model, variables))
    _check_converted(converted, variables)
    used = {name for node in converted.graph.node for name in node.input}  # seeds of dropout are not used
    weights = {name: variable for name, variable in variables.items() if name in used}
    ids = [info for info in converted.graph.input if info.name not in variables]
    converted.graph.ClearField("input")
    converted.graph.input.extend(ids)
    with publish_file(path) as staging:
        _write_onnx_file(staging, converted, weights)


def _convert(model: keras.Model, variables: dict[str, keras.Variable]) -> onnx.ModelProto:
    """Convert a model to ONNX with its weights as additional inputs."""
    try:
        import tf2onnx
    except (ImportError, AttributeError) as error:  # AttributeError: with a numpy that is too new for it
        raise MissingExtraError("writing ONNX", "tf2onnx", "onnx") from error
    ids = [tf.TensorSpec([None, None], tf.int64, name=name) for name in HUGGINGFACE_NAMES.values()]
    weights = [tf.TensorSpec(variable.shape, variable.dtype, name=name) for name, variable in variables.items()]
    outputs, has_states = {}, get_head(type(model).__name__).exports_hidden_states

    def from_ids_and_weights(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        id_tensors, weight_tensors = tensors[: len(ids)], tensors[len(ids) :]
        features = {name: tf.cast(values, tf.int32) for name, values in zip(HUGGINGFACE_NAMES, id_tensors, strict=True)}
        with keras.StatelessScope(zip(variables.values(), weight_tensors, strict=True)):
            outputs.update(run_model(model, features, with_hidden_states=has_states))
        return outputs

    function = tf.function(from_ids_and_weights, autograph=False)
    converted, _ = tf2onnx.convert.from_function(function, [*ids, *weights], opset=OPSET)
    # restore the model's order of outputs: TensorFlow sorts them by name, and some clients read them by position
    in_order = sorted(converted.graph.output, key=lambda info: [*outputs].index(info.name))
    converted.graph.ClearField("output")
    converted.graph.output.extend(in_order)
    for info in [*converted.graph.input, *converted.graph.output]:
        for axis, size in zip(AXES, info.type.tensor_type.shape.dim):  # noqa: B905  outputs may have more axes
            if not size.HasField("dim_value"):
                size.dim_param = axis
    return converted


def _check_converted(converted: onnx.ModelProto, variables: dict[str, keras.Variable]) -> None:
    """Raise `ParityError` if an operation is not standard ONNX or an input is missing."""
    import onnx

    nodes = converted.graph.node
    if unknown := {node.op_type for node in nodes if node.domain or not onnx.defs.has(node.op_type, OPSET, "")}:
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


def _write_onnx_file(path: str | os.PathLike, model: onnx.ModelProto, weights: Mapping[str, keras.Variable]) -> None:
    """Write a model with float32 variables as initializers of its graph, without a copy of all weights in memory.

    A protobuf message is a sequence of fields, and a field that contains a message or bytes is a tag, a length and the
    content. So the weights can follow a graph that was serialized without them, as long as the length before it
    includes them. For base, 438 MB, this takes 0.2 GB of memory; `ModelProto.SerializeToString` and its copies took
    1.9 GB.

    Args:
        path: the file.
        model: the model without its weights.
        weights: the variables, keyed by initializer name.
    """
    import onnx

    frame, graph = onnx.ModelProto(), model.graph.SerializeToString()
    frame.CopyFrom(model)
    frame.ClearField("graph")
    heads = {name: _encode_head(name, variable.shape) for name, variable in weights.items()}
    sizes = [len(heads[name]) + _count_bytes(variable.shape) for name, variable in weights.items()]
    with open(path, "wb") as file:
        file.write(frame.SerializeToString())
        file.write(_encode_field(onnx.ModelProto.GRAPH_FIELD_NUMBER, len(graph) + sum(sizes)) + graph)
        for name, variable in weights.items():
            file.write(heads[name] + keras.ops.convert_to_numpy(variable).astype("<f4").tobytes())


def _encode_head(name: str, shape: tuple[int, ...]) -> bytes:
    """Return the part of an initializer that precedes its values."""
    import onnx

    tensor = onnx.TensorProto(name=name, dims=shape, data_type=onnx.TensorProto.FLOAT)
    tensor_head = tensor.SerializeToString() + _encode_field(
        onnx.TensorProto.RAW_DATA_FIELD_NUMBER, _count_bytes(shape)
    )
    return _encode_field(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, len(tensor_head) + _count_bytes(shape)) + tensor_head


def _count_bytes(shape: tuple[int, ...]) -> int:
    return 4 * math.prod(shape)


def _encode_field(number: int, length: int) -> bytes:
    """Return the tag and the length at the start of a field."""
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(length)


def _encode_varint(value: int) -> bytes:
    """Encode an integer in groups of 7 bits, lowest first; the high bit of a byte means that more follow."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])
