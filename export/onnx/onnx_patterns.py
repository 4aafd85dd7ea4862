"""Searching and changing an ONNX graph, with expressions written as nested tuples.

    ("Add", ("MatMul", "x", "kernel"), 1.0)    a product plus the constant 1

A name stands for any tensor, and for the same one everywhere in the expression; `ANY` for whatever; a number or a
list of them for a constant; a dict at the end for attributes. The two inputs of Add and Mul may stand either way.
"""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

ANY = "_"
_COMMUTATIVE = ("Add", "Mul")

Expression = str | float | list | tuple
Found = Mapping[str, str]  # which tensor a name of a pattern stands for


class Graph:
    """The nodes of an ONNX model while they are being changed.

    Args:
        model: an `onnx.ModelProto`. Weights may be among its inputs.

    Attributes:
        constants: arrays by tensor name; an expression may name one that is added here.
    """

    def __init__(self, model):
        from onnx import numpy_helper

        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._model = model
        self._nodes = list(model.graph.node)  # in topological order
        self._makers = {output: node for node in self._nodes for output in node.output}
        self._names = {node.name for node in self._nodes} | set(self._makers)

    def find(self, pattern: Expression, name: str) -> Found | None:
        """Returns what the names of a pattern stand for where it computes the tensor `name`; None: it does not."""
        return next(self._findings(pattern, name, {}), None)

    def replace_all(self, pattern: Expression, replacement) -> None:
        """Puts an expression wherever a pattern is found.

        `replacement` may be a function of the graph and of what was found, and may return None to leave it.
        """
        nodes = []
        for node in self._nodes:
            found = self.find(pattern, node.output[0])
            new = None if found is None else replacement(self, found) if callable(replacement) else replacement
            made = [node] if new is None else self._built(new, found)
            made[-1].output[0] = node.output[0]
            self._makers |= {one.output[0]: one for one in made}
            nodes += made
        self._nodes = nodes

    def replace_each(self, op: str, replacement) -> None:
        """Puts nodes in the place of each node of an operator.

        `replacement` is a function of the graph and of the node. It returns the nodes, of which the last one has the
        node's own output, or None to leave it.
        """
        before, self._nodes = self._nodes, []
        for node in before:
            made = replacement(self, node) if node.op_type == op else None
            made = [node] if made is None else made
            self._makers |= {output: one for one in made for output in one.output}
            self._nodes += made

    def makes(self, name: str) -> bool:
        """Returns whether a node computes the tensor `name`."""
        return name in self._makers

    def finished(self):
        """Returns the changed model, without what no output needs."""
        import onnx

        read, nodes = {output.name for output in self._model.graph.output}, []
        for node in reversed(self._nodes):
            if read & set(node.output):
                nodes.append(node)
                read |= set(node.input)
        constants = [
            onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in read
        ]
        inputs, outputs = (list(infos) for infos in (self._model.graph.input, self._model.graph.output))
        graph = onnx.helper.make_graph(nodes[::-1], self._model.graph.name, inputs, outputs, constants)
        opsets = [opset for opset in self._model.opset_import if not opset.domain]  # the converter names one more
        versions = {"opset_imports": opsets, "ir_version": self._model.ir_version}
        return onnx.helper.make_model(graph, producer_name="bert-keras", **versions)

    def _findings(self, pattern: Expression, name: str, found: dict) -> Iterator[dict]:
        if isinstance(pattern, str):
            if pattern == ANY:
                yield found
            elif found.get(pattern, name) == name:
                yield {**found, pattern: name}
        elif isinstance(pattern, tuple):
            op, inputs, attributes = _parts(pattern)
            node = self._makers.get(name)
            if node is not None and node.op_type == op and attributes.items() <= _attributes(node).items():
                yield from self._findings_of_all(inputs, list(node.input), found)
                if op in _COMMUTATIVE:
                    yield from self._findings_of_all(inputs, list(node.input)[::-1], found)
        elif _is_constant(self.constants.get(name), pattern):
            yield found

    def _findings_of_all(self, patterns: list, names: list[str], found: dict) -> Iterator[dict]:
        if len(patterns) != len(names):
            return
        if not patterns:
            yield found
            return
        for first in self._findings(patterns[0], names[0], found):
            yield from self._findings_of_all(patterns[1:], names[1:], first)

    def _built(self, expression: tuple, found: Found) -> list:
        """Returns the nodes of an expression; the last one computes its value."""
        import onnx

        op, inputs, attributes = _parts(expression)
        nodes, names = [], []
        for part in inputs:
            if isinstance(part, tuple):
                nodes += self._built(part, found)
                names.append(nodes[-1].output[0])
            else:
                names.append(found.get(part, part) if isinstance(part, str) else self._constant(part))
        name = next(name for i in itertools.count() if (name := f"{op}_rewritten_{i}") not in self._names)
        self._names.add(name)
        return [*nodes, onnx.helper.make_node(op, names, [name], name=name, **attributes)]

    def _constant(self, value: float) -> str:
        name = f"constant_{value}"
        self.constants[name] = np.asarray(value, "float32")
        return name


def _parts(expression: tuple) -> tuple[str, list, dict]:
    op, *inputs = expression
    attributes = inputs.pop() if inputs and isinstance(inputs[-1], dict) else {}
    return op, inputs, attributes


def _attributes(node) -> dict:
    import onnx

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _is_constant(value: np.ndarray | None, wanted: float | list) -> bool:
    return value is not None and value.size == np.size(wanted) and np.allclose(value.ravel(), wanted, rtol=1e-6, atol=0)
