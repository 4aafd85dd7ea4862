"""Find and replace patterns in an ONNX graph, and the rules for tf2onnx's graph of a BERT. Patterns are nested tuples.

    ("Add", ("MatMul", "x", "kernel"), 1.0)    a product plus the constant 1

A name matches any tensor, but the same one everywhere in the pattern; `ANY` matches every tensor; a number or a list of
numbers matches a constant; a dict at the end lists attributes. The two inputs of Add and Mul match in either order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx


ANY = "_"
_COMMUTATIVE = ("Add", "Mul")

Expression = str | float | list | tuple
Found = Mapping[str, str]  # the tensor that each name of a pattern matched


class Graph:
    """The nodes of an ONNX model, to be rewritten.

    Args:
        model: the model. Weights may be among its inputs.

    Attributes:
        constants: arrays keyed by tensor name. Arrays that are added here can be used in replacements.
    """

    def __init__(self, model: onnx.ModelProto):
        from onnx import numpy_helper

        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._model = model
        self._nodes = list(model.graph.node)  # in topological order
        self._producers = {output: node for node in self._nodes for output in node.output}
        self._names = {node.name for node in self._nodes} | set(self._producers)

    def match(self, pattern: Expression, name: str) -> Found | None:
        """Return the tensors that a pattern's names match if it computes the tensor `name`; otherwise None."""
        return next(self._match(pattern, name, {}), None)

    def replace_all(
        self, pattern: Expression, replacement: Expression | Callable[[Graph, Found], Expression | None]
    ) -> None:
        """Replace a pattern everywhere.

        Args:
            pattern: the pattern.
            replacement: the new expression, or a function of the graph and the match that returns it; None leaves the
                match unchanged.
        """
        nodes = []
        for node in self._nodes:
            found = self.match(pattern, node.output[0])
            new = None if found is None else replacement(self, found) if callable(replacement) else replacement
            created = [node] if new is None else self.build(new, node.output[0], found)
            self._producers |= {one.output[0]: one for one in created}
            nodes += created
        self._nodes = nodes

    def replace_nodes(self, op: str, replacement: Callable[[Graph, onnx.NodeProto], list | None]) -> None:
        """Replace every node of an operator.

        Args:
            op: the operator.
            replacement: a function of the graph and the node. It returns the new nodes, the last one with the output of
                the replaced node, or None to leave the node unchanged.
        """
        before, self._nodes = self._nodes, []
        for node in before:
            new = replacement(self, node) if node.op_type == op else None
            created = [node] if new is None else new
            self._producers |= {output: one for one in created for output in one.output}
            self._nodes += created

    def computes(self, name: str) -> bool:
        """Return whether a node computes the tensor `name`."""
        return name in self._producers

    def build_model(self) -> onnx.ModelProto:
        """Return the rewritten model, without nodes and constants that no output depends on."""
        import onnx

        needed, nodes = {output.name for output in self._model.graph.output}, []
        for node in reversed(self._nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        constants = [
            onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in needed
        ]
        inputs, outputs = (list(infos) for infos in (self._model.graph.input, self._model.graph.output))
        graph = onnx.helper.make_graph(nodes[::-1], self._model.graph.name, inputs, outputs, constants)
        opsets = [opset for opset in self._model.opset_import if not opset.domain]  # the converter adds one more
        versions = {"opset_imports": opsets, "ir_version": self._model.ir_version}
        return onnx.helper.make_model(graph, producer_name="bert-keras", **versions)

    def _match(self, pattern: Expression, name: str, found: dict) -> Iterator[dict]:
        """Yield the ways in which a pattern matches a tensor, given the matches `found` so far."""
        if isinstance(pattern, str):
            if pattern == ANY:
                yield found
            elif found.get(pattern, name) == name:
                yield {**found, pattern: name}
        elif isinstance(pattern, tuple):
            op, inputs, attributes = _split(pattern)
            node = self._producers.get(name)
            if node is not None and node.op_type == op and attributes.items() <= _get_attributes(node).items():
                yield from self._match_inputs(inputs, list(node.input), found)
                if op in _COMMUTATIVE:
                    yield from self._match_inputs(inputs, list(node.input)[::-1], found)
        elif _is_constant(self.constants.get(name), pattern):
            yield found

    def _match_inputs(self, patterns: list, names: list[str], found: dict) -> Iterator[dict]:
        if len(patterns) != len(names):
            return
        if not patterns:
            yield found
            return
        for first in self._match(patterns[0], names[0], found):
            yield from self._match_inputs(patterns[1:], names[1:], first)

    def build(self, expression: tuple, output: str | None = None, found: Found | None = None) -> list[onnx.NodeProto]:
        """Return the nodes of an expression.

        Args:
            expression: an expression of tensors, or of names in `found`.
            output: the name of its value, which the last node computes; None: a new name.
            found: the tensors of the names.
        """
        import onnx

        op, inputs, attributes = _split(expression)
        nodes, names = [], []
        for part in inputs:
            if isinstance(part, tuple):
                nodes += self.build(part, None, found)
                names.append(nodes[-1].output[0])
            else:
                if not isinstance(part, str):
                    value, part = part, f"constant_{part}"
                    self.constants[part] = np.asarray(value, "float32")
                names.append((found or {}).get(part, part))
        name = next(name for i in itertools.count() if (name := f"{op}_rewritten_{i}") not in self._names)
        self._names.add(name)
        return [*nodes, onnx.helper.make_node(op, names, [output or name], name=name, **attributes)]


def _split(expression: tuple) -> tuple[str, list, dict]:
    op, *inputs = expression
    attributes = inputs.pop() if inputs and isinstance(inputs[-1], dict) else {}
    return op, inputs, attributes


def _get_attributes(node: onnx.NodeProto) -> dict:
    import onnx

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _is_constant(value: np.ndarray | None, wanted: float | list) -> bool:
    return value is not None and value.size == np.size(wanted) and np.allclose(value.ravel(), wanted, rtol=1e-6, atol=0)


_MEAN = ("ReduceMean", "x", [-1], {"keepdims": 1})
_DEVIATION = ("Sub", "x", _MEAN)
_VARIANCE = ("ReduceMean", ("Mul", _DEVIATION, _DEVIATION), [-1], {"keepdims": 1})
_SCALE = ("Mul", ("Reciprocal", ("Sqrt", ("Add", _VARIANCE, "epsilon"))), ("Reshape", "gamma", ANY))
_LAYER_NORM = ("Add", ("Mul", "x", _SCALE), ("Add", ("Mul", ("Neg", _MEAN), _SCALE), ("Reshape", "beta", ANY)))
_NORM = ("LayerNormalization", "x", "gamma", "beta")

_IS_NEGATIVE = ("Less", ("Cast", "ids"), 0.0)
_WRAPPED = (
    "Add",
    ("Mul", ("Cast", _IS_NEGATIVE), ("Add", "ids", ANY)),
    ("Mul", "ids", ("Cast", ("Not", _IS_NEGATIVE))),
)

_TANH_SCALE = math.sqrt(2.0 / math.pi)
_HEADS_FIRST = {"perm": [0, 2, 1, 3]}
_GELU = ("Mul", ("Mul", 0.5, "x"), ("Add", 1.0, ("Erf", ("Mul", "x", math.sqrt(0.5)))))
_CUBE = ("Mul", ("Mul", ("Mul", 0.044715, "x"), "x"), "x")
_GELU_TANH = ("Mul", ("Mul", 0.5, "x"), ("Add", 1.0, ("Tanh", ("Mul", _TANH_SCALE, ("Add", "x", _CUBE)))))
_FAST_GELU = ("Mul", ("Mul", "x", _TANH_SCALE), ("Add", 1.0, ("Mul", ("Mul", 0.044715, "x"), "x")))

# pattern, replacement
_RULES = (
    # ONNX's Gather itself counts negative ids from the end
    (("Gather", "table", _WRAPPED, {"axis": 0}), ("Gather", "table", "ids", {"axis": 0})),
    (_LAYER_NORM, lambda graph, found: (*_NORM, {"axis": -1, "epsilon": graph.constants[found["epsilon"]].item()})),
    # activations in the order of operations that onnxruntime looks for, which is PyTorch's
    (_GELU, ("Mul", ("Mul", "x", ("Add", ("Erf", ("Div", "x", math.sqrt(2.0))), 1.0)), 0.5)),
    (_GELU_TANH, ("Mul", ("Mul", "x", 0.5), ("Add", ("Tanh", _FAST_GELU), 1.0))),
    # scale the scores instead of the queries, because onnxruntime fuses that with the product
    (
        ("MatMul", ("Transpose", ("Reshape", ("Mul", "x", "scale"), "shape"), _HEADS_FIRST), "keys"),
        ("Mul", ("MatMul", ("Transpose", ("Reshape", "x", "shape"), _HEADS_FIRST), "keys"), "scale"),
    ),
)


def rewrite_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that computes the same with fewer operations, in forms that onnxruntime can fuse.

    Keras writes a layer norm as eleven operations and an embedding as a gather that first wraps negative ids.

    Activations stay flat, (B*S, D), as in our layers. PyTorch's exports have (B, S, D), which onnxruntime also fuses to
    `SkipLayerNormalization`, but only flat products include their bias (`Gemm`), and on a CPU the fused norm is slower:
    12 of them took 13 ms of a MiniLM-L6 at 8 x 128, 12 plain norms and additions 5 ms. onnxruntime's fused `Attention`
    does not help either: 133 ms in total with it, 131 ms without.
    """
    graph = Graph(model)
    for pattern, replacement in _RULES:
        graph.replace_all(pattern, replacement)
    return graph.build_model()
