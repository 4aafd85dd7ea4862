"""`Lifetimes`: which tensors of a traced function are in memory at the same time."""

import dataclasses
from collections.abc import Callable, Iterator

from bert_keras.analysis.cost_model.tracing.sized_graph import BatchShape, SizedGraph, SizedOperation, SizedTensor

# Their output shares the memory of their input
ALIASES = ("ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient")
NOT_ALLOCATED = ("Const", "Placeholder", "ReadVariableOp", "VarHandleOp")  # exist before the function runs
# TensorFlow writes their output over an input that no later operation needs
_IN_PLACE = (
    *("Add", "AddN", "AddV2", "BiasAdd", "Mul", "Neg", "RealDiv", "SelectV2", "Sub"),
    *("Erf", "Exp", "Relu", "Rsqrt", "Softmax", "Sqrt", "Square", "Tanh"),
)
_GRADIENT_TAPE = "gradient_tape/"  # the name scope that TensorFlow opens for gradients


@dataclasses.dataclass(frozen=True)
class _Step:
    """An operation: the indices of the tensors that it allocates and of those that it is the last to use."""

    allocated: tuple[int, ...]
    freed: tuple[int, ...]
    is_in_place: bool


class Lifetimes:
    """The lifetimes of the tensors of a traced function.

    Assumes that operations run one after the other in program order. A tensor lives from the operation that computes
    it to the last one that uses it, or to the end if the function returns it. Weights are not included.
    """

    def __init__(self, graph: SizedGraph) -> None:
        self._buffers = _find_buffers(graph.operations)  # tensor -> the tensor whose memory it shares
        self._allocated: list[tuple[SizedTensor, SizedOperation]] = []
        self._indices: dict[SizedTensor, int] = {}
        self._steps = list(self._list_steps(graph))
        self._activations = self._find_activations(graph.operations)
        self._count_bytes = graph.byte_counter([tensor for tensor, _ in self._allocated])

    def peak_bytes(self, shape: BatchShape) -> int:
        """Return the largest number of bytes in memory at one moment."""
        num_bytes = self._count_bytes(shape).tolist()
        current = peak = 0
        for step in self._steps:
            freed, allocated = ([num_bytes[index] for index in indices] for indices in (step.freed, step.allocated))
            overwrites_input = step.is_in_place and allocated != [] and allocated[0] in freed
            peak = max(peak, current + (0 if overwrites_input else sum(allocated)))
            current += sum(allocated) - sum(freed)
        return peak

    def activation_bytes(
        self, shape: BatchShape, select: Callable[[SizedTensor, SizedOperation], bool] = lambda *_: True
    ) -> int:
        """Return the bytes of the tensors that the forward pass stores for the backward pass.

        Args:
            shape: shape of the batch.
            select: receives a tensor and the operation that computes it, and returns whether to count it.
        """
        indices = [index for index in self._activations if select(*self._allocated[index])]
        return int(self._count_bytes(shape)[indices].sum())

    def _list_steps(self, graph: SizedGraph) -> Iterator[_Step]:
        last_use = self._find_last_uses(graph)
        for place, operation in enumerate(graph.operations):
            outputs = () if operation.kind in (*ALIASES, *NOT_ALLOCATED) else operation.outputs
            allocated = tuple(self._add(tensor, operation) for tensor in outputs if tensor in last_use)
            inputs = dict.fromkeys(self._buffers.get(tensor, tensor) for tensor in operation.inputs)
            freed = (self._indices[one] for one in inputs if last_use[one] == place and one in self._indices)
            yield _Step(allocated, tuple(freed), operation.kind in _IN_PLACE)

    def _find_last_uses(self, graph: SizedGraph) -> dict[SizedTensor, int]:
        """Map each tensor to the place of the last operation that uses it; returned tensors are used at the end."""
        places = {}
        for place, operation in enumerate(graph.operations):
            for tensor in operation.inputs:
                places[self._buffers.get(tensor, tensor)] = place
        returned = (self._buffers.get(tensor, tensor) for tensor in graph.outputs)
        return places | dict.fromkeys(returned, len(graph.operations))

    def _add(self, tensor: SizedTensor, operation: SizedOperation) -> int:
        self._allocated.append((tensor, operation))
        return self._indices.setdefault(tensor, len(self._indices))

    def _find_activations(self, operations: list[SizedOperation]) -> list[int]:
        """Return the indices of the tensors that the forward pass computes and the backward pass uses."""
        is_gradient = [_GRADIENT_TAPE in operation.name for operation in operations]
        start = is_gradient.index(True) if any(is_gradient) else len(operations)
        forward = {tensor for operation in operations[:start] for tensor in operation.outputs}
        used = {self._buffers.get(tensor, tensor) for one in operations[start:] for tensor in one.inputs}
        return sorted(self._indices[tensor] for tensor in used & forward & self._indices.keys())


def _find_buffers(operations: list[SizedOperation]) -> dict[SizedTensor, SizedTensor]:
    """Map each output of an aliasing operation to the tensor whose memory it shares."""
    buffers = {}
    for operation in operations:
        if operation.kind in ALIASES and operation.inputs:
            inputs = operation.inputs if operation.kind == "IdentityN" else operation.inputs[:1]
            for output, shared in zip(operation.outputs, inputs, strict=True):
                buffers[output] = buffers.get(shared, shared)
    return buffers
