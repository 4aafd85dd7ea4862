"""Run batches of few tokens in operations of their own, so that TensorFlow can keep its copies of the weights.

oneDNN's kernels need the weights of a product in another order, and at short texts most of the time goes into that.
With the environment variable `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1` TensorFlow keeps the ordered copy of the first call.
But products of few rows need another order than those of many, so each kind gets its own operations. Both read the same
variables, and without the environment variable nothing changes.

For few rows, waking the threads of oneDNN's kernels takes longer than the work. MiniLM, 1 x 16, two threads: a
transpose of 24 KB takes 73 microseconds in oneDNN's kernel and 13 with one thread. TensorFlow has kernels without
oneDNN for integers, and for the parts of a softmax; `rewrite_saved_model` uses them.
"""

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf
from google.protobuf.message import Message

from bert_keras.heads.text_function import RunModel
from bert_keras.serving.messages.definitions import MESSAGES

FEWEST_ROWS, MOST_ROWS = 8, 80  # oneDNN chooses one order of the weights for these, and another for fewer or more
FEW_ROWS = "few_rows"  # part of the names of the functions for few rows

Features = Mapping[str, tf.Tensor]
_SWAP_HEADS = [0, 2, 1, 3]  # (B, S, N, H) <-> (B, N, S, H)
_FLOAT, _INTEGER = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
_OUTPUTS = {"Bitcast": "output", "Const": "output", "Max": "output", "Sum": "output"}
_OUTPUTS |= {"Sub": "z", "Exp": "y", "RealDiv": "z"}  # the names of their outputs


def separate_few_rows(run: RunModel, count_rows: Callable[[Features], tf.Tensor]) -> RunModel:
    """Wrap a function of features so that batches of 8 to 80 rows run in a copy of its operations.

    Args:
        run: runs the model on any batch.
        count_rows: returns the number of rows of the products: of the tokens that are computed.
    """

    def few_rows(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return run(features)

    def run_any(features: Features) -> dict[str, tf.Tensor]:
        rows = count_rows(features)
        few = tf.function(few_rows, autograph=False)
        is_few = (rows >= FEWEST_ROWS) & (rows <= MOST_ROWS)
        return tf.cond(is_few, lambda: few(dict(features)), lambda: run(features))

    return run_any


def count_tokens(features: Features) -> tf.Tensor:
    """Return the number of tokens of a batch, padding included."""
    return tf.size(features["padding_mask"])


def count_real_tokens(features: Features) -> tf.Tensor:
    """Return the number of tokens of a batch without its padding."""
    return tf.reduce_sum(features["padding_mask"])


def rewrite_saved_model(folder: str | os.PathLike) -> None:
    """Rewrite the functions of a SavedModel in place.

    Float32 transposes of heads become transposes of the same bits as int32. In the functions for few rows a softmax
    becomes its parts; for many rows it stays one operation, which is faster there.

    Args:
        folder: contains `saved_model.pb`.
    """
    path = pathlib.Path(folder, "saved_model.pb")
    saved = MESSAGES.SavedModel.FromString(path.read_bytes())
    for number, content in enumerate(saved.meta_graphs):
        graph = tf.compat.v1.MetaGraphDef.FromString(content)
        for function in graph.graph_def.library.function:
            _transpose_bits(function)
            if FEW_ROWS in function.signature.name:
                _split_softmax(function)
        saved.meta_graphs[number] = graph.SerializeToString(deterministic=True)
    path.write_bytes(saved.SerializeToString())


def _transpose_bits(function: Message) -> None:
    """Transpose the heads of a function as integers."""
    permutations = {node.name: node.attr["value"].tensor for node in function.node_def if node.op == "Const"}
    replacements = {}
    for node in list(function.node_def):
        if node.op != "Transpose" or node.attr["T"].type != _FLOAT:
            continue
        permutation = permutations.get(node.input[1].split(":")[0])
        if permutation is None or tf.make_ndarray(permutation).tolist() != _SWAP_HEADS:
            continue
        to_bits = {"T": _FLOAT, "type": _INTEGER}
        node.input[0] = _add_node(function, f"{node.name}/bits", "Bitcast", [node.input[0]], to_bits)
        node.attr["T"].type = _INTEGER
        to_floats = {"T": _INTEGER, "type": _FLOAT}
        floats = _add_node(function, f"{node.name}/floats", "Bitcast", [f"{node.name}:y:0"], to_floats)
        replacements[f"{node.name}:y:0"] = floats
    _replace_inputs(function, replacements)


def _split_softmax(function: Message) -> None:
    """Replace each softmax by exp(x - max) / sum."""
    replacements = {}
    for node in [node for node in function.node_def if node.op == "Softmax"]:
        types, reduced = {"T": _FLOAT}, {"T": _FLOAT, "Tidx": _INTEGER}
        axis = _add_node(function, f"{node.name}/axis", "Const", [], {"dtype": _INTEGER})
        function.node_def[-1].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(-1, tf.int32))
        largest = _add_node(function, f"{node.name}/max", "Max", [node.input[0], axis], reduced)
        shifted = _add_node(function, f"{node.name}/shifted", "Sub", [node.input[0], largest], types)
        powers = _add_node(function, f"{node.name}/exp", "Exp", [shifted], types)
        total = _add_node(function, f"{node.name}/sum", "Sum", [powers, axis], reduced)
        replacements[f"{node.name}:softmax:0"] = _add_node(
            function, f"{node.name}/quotient", "RealDiv", [powers, total], types
        )
        function.node_def.remove(node)
    _replace_inputs(function, replacements)


def _add_node(function: Message, name: str, op: str, inputs: Iterable[str], types: Mapping[str, int]) -> str:
    """Add an operation with one output and return the output's name."""
    node = function.node_def.add(name=name, op=op, input=inputs)
    for attribute, value in types.items():
        node.attr[attribute].type = value
    if op in ("Max", "Sum"):
        node.attr["keep_dims"].b = True
    return f"{name}:{_OUTPUTS[op]}:0"


def _replace_inputs(function: Message, replacements: Mapping[str, str]) -> None:
    """Let all users of an output use another one, except for the operation that computes the other one."""
    for node in function.node_def:
        for place, name in enumerate(node.input):
            if name in replacements and replacements[name].split(":")[0] != node.name:
                node.input[place] = replacements[name]
    for name, output in function.ret.items():
        function.ret[name] = replacements.get(output, output)
