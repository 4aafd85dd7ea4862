"""Whether an older TensorFlow Serving knows all that a SavedModel's graph is made of.

A server that does not know an op refuses the model; one that does not know an attribute ignores it and computes
something else, with a line in its log. Both are cheaper to find here. `serving_ops.txt` lists what came when.
"""

import os
import pathlib
from collections import Counter
from collections.abc import Iterable

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its ops
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from bert_keras.errors import InputError, ParityError
from bert_keras.export.saved_model.serving_releases import OLDEST_SERVING, graph_versions, introduced_in, known_release

# TensorFlow 2.21 writes it for every variable; a server of 2.13 logs that it ignores it, and answers the same (run).
_HARMLESS = {"VarHandleOp.debug_name"}
_TYPES = tf.compat.v1.AttrValue.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number


def audit_saved_model(folder: str | os.PathLike, min_serving: str = OLDEST_SERVING) -> dict:
    """Checks that a release of TensorFlow Serving, and so every later one, runs a SavedModel.

    Args:
        folder: with `saved_model.pb`.
        min_serving: the oldest release that is to run it, such as "2.13".

    Returns:
        `min_serving`; `tensorflow`, the version that wrote it; `graph_version`; `ops`, how often each occurs in the
        graph and its functions; and `ignored_attributes`, what the release ignores, which does no harm.

    Raises:
        InputError: the folder holds no SavedModel, or `min_serving` is not in the table.
        ParityError: that release does not run it; the message names every op and attribute, and who knows it first.
    """
    release = known_release(min_serving)
    meta_graph = read_meta_graph(folder)
    newer = sorted(_newer(meta_graph, release))
    problems = [*_version_problems(meta_graph, release), *_unknown_ops(meta_graph), *_xla_problems(meta_graph)]
    problems += [f"{fact} (known since {introduced_in()[fact]})" for fact in newer if fact not in _HARMLESS]
    if problems:
        raise ParityError(
            f"TensorFlow Serving {release} does not run {folder}, which uses {', '.join(problems)}: export without "
            "that, or, if the server is newer, name its release with --min-serving"
        )
    return {
        "min_serving": release,
        "tensorflow": meta_graph.meta_info_def.tensorflow_version,
        "graph_version": meta_graph.graph_def.versions.producer,
        "ops": dict(sorted(Counter(node.op for node in _op_nodes(meta_graph.graph_def)).items())),
        "ignored_attributes": [fact for fact in newer if fact in _HARMLESS],
    }


def read_meta_graph(folder: str | os.PathLike) -> tf.compat.v1.MetaGraphDef:
    """Returns the graph and the signatures of a SavedModel; raises `InputError` if the folder holds none to serve."""
    try:
        saved = _SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes())
        graphs = [tf.compat.v1.MetaGraphDef.FromString(graph) for graph in saved.meta_graphs]
    except (OSError, DecodeError) as error:
        raise InputError(f"{folder} holds no SavedModel that can be read ({error}): name the folder of one") from None
    served = [graph for graph in graphs if "serve" in graph.meta_info_def.tags]
    if len(served) != 1:
        raise InputError(f"{folder} holds {len(served)} graphs with the tag 'serve'; expected one: export it again")
    return served[0]


def _op_nodes(graph: tf.compat.v1.GraphDef) -> Iterable[tf.compat.v1.NodeDef]:
    """Yields the nodes of a graph and its functions, but for calls of functions by their names."""
    functions = {function.signature.name for function in graph.library.function}
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node for node in nodes if node.op not in functions)


def _version_problems(meta_graph: tf.compat.v1.MetaGraphDef, release: str) -> Iterable[str]:
    versions, served = meta_graph.graph_def.versions, graph_versions()[release]
    if versions.min_consumer > served or served in versions.bad_consumers:
        yield f"GraphDef {versions.min_consumer} ({release} reads {served})"


def _xla_problems(meta_graph: tf.compat.v1.MetaGraphDef) -> Iterable[str]:
    """Yields that there are functions which XLA must compile: stock servers have no compiler linked in.

    "Could not find compiler for platform", tensorflow/serving, issues 2214 and 2217, of 2.13.1 and 2.14.0.
    """
    graph = meta_graph.graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    marked = [one.signature.name for one in graph.library.function if _must_compile(one)]
    marked += [node.name for node in nodes if _must_compile(node)]
    if marked:
        yield f"jit_compile (in {marked[0]}, for one; no server is built with XLA's compiler)"


def _must_compile(marked: Message) -> bool:
    return "_XlaMustCompile" in marked.attr and marked.attr["_XlaMustCompile"].b


def _unknown_ops(meta_graph: tf.compat.v1.MetaGraphDef) -> list[str]:
    ops = sorted({node.op for node in _op_nodes(meta_graph.graph_def)})
    known = registered_ops(ops)
    return [f"{op} (an op of neither TensorFlow nor tensorflow-text)" for op in ops if op not in known]


def _newer(meta_graph: tf.compat.v1.MetaGraphDef, release: str) -> set[str]:
    """Returns what of a graph came after a release, in the words of the table."""
    releases = list(graph_versions())
    since = {fact: first for fact, first in introduced_in().items() if releases.index(first) > releases.index(release)}
    nodes = list(_op_nodes(meta_graph.graph_def))
    known = registered_ops({node.op for node in nodes})
    return {fact for node in nodes for fact in _facts(node, known.get(node.op)) if fact in since}


def registered_ops(names: Iterable[str]) -> dict[str, Message]:
    """Returns the definitions (`OpDef`) of those ops that this process knows, by their names."""
    graph = tf.compat.v1.GraphDef()
    for number, name in enumerate(names):
        graph.node.add(name=f"node_{number}", op=name)
    with tf.Graph().as_default():
        listed = tf.compat.v1.train.export_meta_graph(graph_def=graph).meta_info_def.stripped_op_list
    return {one.name: one for one in listed.op}


def _facts(node: tf.compat.v1.NodeDef, definition: Message | None) -> Iterable[str]:
    """Yields what a server must know to run a node; an attribute that has its default is none of it."""
    yield node.op
    defaults = {one.name: one.default_value for one in definition.attr} if definition else {}
    for name, value in node.attr.items():
        if value == defaults.get(name):
            continue
        yield f"{node.op}.{name}"
        if value.WhichOneof("value") == "type":
            yield f"{node.op}.{name}={_TYPES[value.type].name.removeprefix('DT_').lower()}"
        elif value.WhichOneof("value") == "s":
            yield f"{node.op}.{name}={value.s.decode(errors='replace')}"


def _saved_model_class():
    """Builds the class of `SavedModel` (tensorflow/core/protobuf/saved_model.proto), with its graphs as bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="bert_keras/saved_model.proto", package="bert_keras")
    message = file.message_type.add(name="SavedModel")
    repeated_bytes = {"label": 3, "type": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES}
    message.field.add(name="meta_graphs", number=2, **repeated_bytes)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bert_keras.SavedModel"))


_SavedModel = _saved_model_class()
