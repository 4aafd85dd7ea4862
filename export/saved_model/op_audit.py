"""The op audit: check that an older TensorFlow Serving knows every op and attribute of a SavedModel's graph.

A server that does not know an op refuses the model. A server that does not know an attribute ignores it, logs a line
and computes something else. Both are cheaper to find here. `serving_ops.txt` lists the release that introduced each.
"""

import os
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its ops
from google.protobuf.message import DecodeError, Message

from bert_keras.errors import InputError, ParityError
from bert_keras.export.saved_model.serving_releases import (
    OLDEST_SERVING,
    check_release,
    read_first_releases,
    read_graph_versions,
)
from bert_keras.serving.messages.definitions import MESSAGES

# TensorFlow 2.21 writes it for every variable. A server of 2.13 logs that it ignores it and answers the same (tested).
_HARMLESS = {"VarHandleOp.debug_name"}
_TYPES = tf.compat.v1.AttrValue.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number


def audit_saved_model(folder: str | os.PathLike, min_serving: str = OLDEST_SERVING) -> dict:
    """Check that a release of TensorFlow Serving, and therefore every later one, can run a SavedModel.

    Args:
        folder: contains `saved_model.pb`.
        min_serving: the oldest release that must be able to run it, such as "2.13".

    Returns:
        `min_serving`; `tensorflow`, the version that wrote the SavedModel; `graph_version`; `ops`, the number of uses
        of each op in the graph and its functions; and `ignored_attributes`, which the release ignores without harm.

    Raises:
        InputError: the folder contains no SavedModel, or `min_serving` is not in the table.
        ParityError: the release cannot run it. The message lists every unknown op and attribute, and the first release
            that knows it.
    """
    release = check_release(min_serving)
    meta_graph = read_meta_graph(folder)
    nodes, versions = list(_list_op_nodes(meta_graph.graph_def)), meta_graph.graph_def.versions
    ops = Counter(node.op for node in nodes)
    known, served = find_registered_ops(ops), read_graph_versions()[release]
    newer = sorted(_find_newer_facts(nodes, known, release))
    problems = []
    if versions.min_consumer > served or served in versions.bad_consumers:
        problems.append(f"GraphDef {versions.min_consumer} ({release} supports {served})")
    problems += [f"{op} (not an op of TensorFlow or tensorflow-text)" for op in sorted(ops) if op not in known]
    problems += _find_xla_problems(meta_graph.graph_def)
    problems += [f"{fact} (known since {read_first_releases()[fact]})" for fact in newer if fact not in _HARMLESS]
    if problems:
        raise ParityError(
            f"TensorFlow Serving {release} cannot run {folder}, which uses {', '.join(problems)}: export without "
            "them, or, if your server is newer, name its release with --min-serving"
        )
    return {
        "min_serving": release,
        "tensorflow": meta_graph.meta_info_def.tensorflow_version,
        "graph_version": versions.producer,
        "ops": dict(sorted(ops.items())),
        "ignored_attributes": [fact for fact in newer if fact in _HARMLESS],
    }


def read_meta_graph(folder: str | os.PathLike) -> tf.compat.v1.MetaGraphDef:
    """Return the graph and the signatures of a SavedModel.

    Raises:
        InputError: the folder does not contain a SavedModel for serving.
    """
    try:
        saved = MESSAGES.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes())
        graphs = [tf.compat.v1.MetaGraphDef.FromString(graph) for graph in saved.meta_graphs]
    except (OSError, DecodeError) as error:
        raise InputError(f"{folder} contains no readable SavedModel ({error}): choose the folder of one") from None
    served = [graph for graph in graphs if "serve" in graph.meta_info_def.tags]
    if len(served) != 1:
        raise InputError(f"{folder} contains {len(served)} graphs with the tag 'serve'; expected one: export it again")
    return served[0]


def _list_op_nodes(graph: tf.compat.v1.GraphDef) -> Iterable[tf.compat.v1.NodeDef]:
    """Yield the nodes of a graph and its functions, except for function calls."""
    functions = {function.signature.name for function in graph.library.function}
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node for node in nodes if node.op not in functions)


def _find_xla_problems(graph: tf.compat.v1.GraphDef) -> Iterable[str]:
    """Yield a problem if there are functions that XLA must compile: stock servers do not contain its compiler.

    "Could not find compiler for platform", tensorflow/serving issues 2214 and 2217, versions 2.13.1 and 2.14.0.
    """
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    marked = [function.signature.name for function in graph.library.function if _has_jit_compile(function)]
    marked += [node.name for node in nodes if _has_jit_compile(node)]
    if marked:
        yield f"jit_compile (for example in {marked[0]}; no server contains XLA's compiler)"


def _has_jit_compile(message: Message) -> bool:
    return "_XlaMustCompile" in message.attr and message.attr["_XlaMustCompile"].b


def _find_newer_facts(nodes: Iterable[tf.compat.v1.NodeDef], known: Mapping[str, Message], release: str) -> set[str]:
    """Return the ops, attributes and values of nodes that a release does not know, as the table spells them."""
    releases = list(read_graph_versions())
    newer_releases = releases[releases.index(release) + 1 :]
    newer_facts = {fact for fact, first in read_first_releases().items() if first in newer_releases}
    return newer_facts & {fact for node in nodes for fact in _list_facts(node, known.get(node.op))}


def find_registered_ops(names: Iterable[str]) -> dict[str, Message]:
    """Return the definitions (`OpDef`) of the ops that are registered in this process, keyed by name."""
    graph = tf.compat.v1.GraphDef()
    for number, name in enumerate(names):
        graph.node.add(name=f"node_{number}", op=name)
    with tf.Graph().as_default():
        definitions = tf.compat.v1.train.export_meta_graph(graph_def=graph).meta_info_def.stripped_op_list
    return {op.name: op for op in definitions.op}


def _list_facts(node: tf.compat.v1.NodeDef, definition: Message | None) -> Iterable[str]:
    """Yield the op, attributes and values that a server must know to run a node. Default values are not needed."""
    yield node.op
    defaults = {attribute.name: attribute.default_value for attribute in definition.attr} if definition else {}
    for name, value in node.attr.items():
        if value == defaults.get(name):
            continue
        yield f"{node.op}.{name}"
        if value.WhichOneof("value") == "type":
            yield f"{node.op}.{name}={_TYPES[value.type].name.removeprefix('DT_').lower()}"
        elif value.WhichOneof("value") == "s":
            yield f"{node.op}.{name}={value.s.decode(errors='replace')}"
