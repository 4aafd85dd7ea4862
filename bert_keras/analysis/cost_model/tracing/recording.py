"""The operations of a model as TensorFlow traced them: who asked for them, what they read and wrote, what they cost."""

import dataclasses
import re
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_keras.analysis.cost_model.tracing.flops import PRODUCTS, Shape, flops_of

ENCODER = "encoder"  # what its layer is called here, whatever number Keras gave it
_BORDER = "the_gradients_begin_here"


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of a traced function.

    Attributes:
        kind: TensorFlow's name for it, such as "MatMul".
        layers: the names of the layers around it, the outermost first.
        is_backward: whether it is there for the gradients.
        inputs, outputs: the shapes of what it reads and writes.
        flops: floating-point operations, see `bert_keras.analysis.cost_model.tracing.flops`.
        source: TensorFlow's own object.
    """

    kind: str
    layers: tuple[str, ...]
    is_backward: bool
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    flops: int
    source: tf.Operation = dataclasses.field(repr=False)

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices."""
        return self.kind in PRODUCTS


def traced_operations(function: Callable, *specs, layers: Mapping[str, str] | None = None) -> list[Operation]:
    """Traces a function of tensors of known shapes and returns, in order, what its outputs need. Nothing is computed.

    Args:
        function: any that TensorFlow can trace; gradients by `gradients_of`, once.
        *specs: a `tf.TensorSpec`, or a dict of them, for each argument.
        layers: the names of layers, and what to call them: they tell `block_0`, a layer, from `block_0_1`, its scope
            when it is entered again.

    Example:
        >>> operations = traced_operations(lambda x: x @ tf.ones((3, 4)), tf.TensorSpec((2, 3)))
        >>> [operation.flops for operation in operations if operation.is_product]
        [48]
    """
    graph = graph_of(function, *specs)
    names = [operation.name for operation in graph.get_operations()]
    border = next((place for place, name in enumerate(names) if name.startswith(_BORDER)), len(names))
    backward = set(names[border:])
    return [_operation(one, one.name in backward, layers or {}) for one in needed_operations(graph)]


def graph_of(function: Callable, *specs) -> tf.Graph:
    """Traces a function with all functions that it calls inlined, so that the graph holds every operation.

    Args:
        function: any that TensorFlow can trace.
        *specs: as for `traced_operations`.
    """
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # inlines the functions that are called; the outer one is traced all the same
    try:
        return tf.function(function, autograph=False).get_concrete_function(*specs).graph
    finally:
        tf.config.run_functions_eagerly(before)


def gradients_of(tape: tf.GradientTape, loss: tf.Tensor, variables: list) -> list:
    """Returns the gradients; what comes after this call is `Operation.is_backward`."""
    tf.no_op(name=_BORDER)
    return tape.gradient(loss, variables)


def needed_operations(graph: tf.Graph, *, with_effects: bool = False) -> list[tf.Operation]:
    """Returns the operations that the outputs of a function are computed from, in the order of the program.

    Args:
        graph: the function's.
        with_effects: also those that are there for what they do, such as moving weights: with them it is all that
            TensorFlow runs.
    """
    effects = graph.control_outputs if with_effects else ()
    needed, waiting = set(), [*(tensor.op for tensor in graph.outputs), *effects]
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs if with_effects else ()
    return [operation for operation in graph.get_operations() if operation in needed]


def _operation(operation: tf.Operation, is_backward: bool, layers: Mapping[str, str]) -> Operation:
    *scope, _ = operation.name.split("/")
    scope = (name if name in layers else re.sub(r"_\d+$", "", name) for name in scope)
    inputs, outputs = (tuple(_shape(tensor) for tensor in some) for some in (operation.inputs, operation.outputs))
    attributes = {
        name: operation.get_attr(name) for name in ("transpose_a", "adj_x") if name in operation.node_def.attr
    }
    dtype = operation.outputs[0].dtype.name if outputs else ""
    return Operation(
        operation.type,
        tuple(layers[name] for name in scope if name in layers),
        is_backward,
        inputs,
        outputs,
        flops_of(operation.type, dtype, attributes, inputs, outputs),
        operation,
    )


def _shape(tensor: tf.Tensor) -> Shape:
    return tuple(tensor.shape) if tensor.shape.rank is not None else ()
