"""`SizedGraph`: a function that is traced once, with tensor sizes for every batch shape; `Lifetimes` of its tensors.

The function is traced on a batch whose size, sequence length and number of masked positions are three primes. The
prime factors of a tensor's size then show how it grows: 12 * B * S * S has these factors and no others. Masked-LM
models also gather the masked positions together with [CLS], M + 1 positions per sequence; M is chosen so that M + 1 is
twice a fourth prime. Nothing is computed, and no weights are stored.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from bert_keras.analysis.cost_model.workloads import BatchShape, Operation, SizedTensor, list_operations, trace_graph
from bert_keras.errors import InputError

# B * M * vocabulary and B * heads * S * S must stay below 2^31, because TensorFlow indexes them with int32
_MAX_BATCH_SIZE, _MAX_LENGTH, _MAX_MASKED = 101, 512, 103
# Their output shares the memory of their input
ALIASES = ("ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient")
NOT_ALLOCATED = ("Const", "Placeholder", "ReadVariableOp", "VarHandleOp")  # exist before the function runs
# TensorFlow writes their output over an input that no later operation needs
_IN_PLACE = (
    *("Add", "AddN", "AddV2", "BiasAdd", "Mul", "Neg", "RealDiv", "SelectV2", "Sub"),
    *("Erf", "Exp", "Relu", "Rsqrt", "Softmax", "Sqrt", "Square", "Tanh"),
)
_GRADIENT_TAPE = "gradient_tape/"  # the name scope that TensorFlow opens for gradients


class SizedGraph:
    """The operations of a traced function in program order, with tensor sizes for every batch shape.

    Args:
        function: a function that TensorFlow can trace.
        make_specs: maps a `BatchShape` to the specs of the function's arguments.
        max_length: the longest sequence that the model accepts; the traced length is at most 512.
        constants: sizes of tensor axes that do not depend on the batch, such as the dimensions of weights.

    Attributes:
        traced_shape: the batch shape of the trace.
        operations: the operations that TensorFlow runs.
        outputs: the tensors that the function returns.

    Raises:
        InputError: the sequences are so short that no prime is left for their length.

    Example:
        >>> import tensorflow as tf
        >>> graph = SizedGraph(lambda x: x + 1, lambda shape: [tf.TensorSpec((shape.batch_size, 3))], 512, {3})
        >>> graph.byte_counter(graph.outputs)(BatchShape(batch_size=10, length=1, num_masked=1)).tolist()
        [120]
    """

    def __init__(
        self,
        function: Callable,
        make_specs: Callable[[BatchShape], Sequence],
        max_length: int,
        constants: Iterable[int],
    ) -> None:
        self.traced_shape = _choose_traced_shape(max_length, set(constants))
        graph = trace_graph(function, *make_specs(self.traced_shape))
        self.operations, self.outputs = list_operations(graph, with_side_effects=True)

    def byte_counter(self, tensors: Sequence[SizedTensor]) -> Callable[[BatchShape], np.ndarray]:
        """Return a function that maps a batch shape to the bytes of each tensor, int64."""
        factors = np.array([self._factorize(tensor.num_bytes) for tensor in tensors], np.int64).reshape(-1, 5)
        return lambda shape: factors[:, 0] * np.prod(np.array(_get_variables(shape)) ** factors[:, 1:], axis=1)

    def scale_shape(self, tensor: SizedTensor, shape: BatchShape) -> tuple[int, ...]:
        """Return the shape of a tensor for a batch of another shape."""
        factors = map(self._factorize, tensor.shape)
        return tuple(constant * math.prod(map(pow, _get_variables(shape), powers)) for constant, *powers in factors)

    def _factorize(self, number: int) -> tuple[int, ...]:
        """Split a size into its constant factor and the exponents of B, S, M and M + 1."""
        exponents = []
        for variable in _get_variables(self.traced_shape):
            exponents.append(0)
            while number and number % variable == 0:
                number, exponents[-1] = number // variable, exponents[-1] + 1
        return number, *exponents


def _get_variables(shape: BatchShape) -> tuple[int, int, int, int]:
    return shape.batch_size, shape.length, shape.num_masked, shape.num_masked + 1


def _choose_traced_shape(max_length: int, constants: set[int]) -> BatchShape:
    """Choose the largest primes that divide no constant for B, S, M, and half of M + 1."""

    def is_free(number: int) -> bool:
        is_prime = all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
        return is_prime and all(constant % number for constant in constants)

    def is_free_for_masked(number: int) -> bool:
        primes = {number, (number + 1) // 2}
        return number % 2 == 1 and all(map(is_free, primes)) and not primes & {batch_size, length}

    batch_size = next(filter(is_free, range(_MAX_BATCH_SIZE, 1, -1)), None)
    lengths = range(min(max_length, _MAX_LENGTH), 1, -1)
    length = next((number for number in lengths if is_free(number) and number != batch_size), None)
    num_masked = next(filter(is_free_for_masked, range(_MAX_MASKED, 4, -1)), None)
    if batch_size is None or length is None or num_masked is None:
        raise InputError(
            f"the model accepts only {max_length} tokens, too few to estimate the memory and time of training; "
            "expected a model for longer sequences: use --quick (quick=True in Python) to leave the estimates out"
        )
    return BatchShape(batch_size, length, num_masked)


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
        self._allocated: list[tuple[SizedTensor, Operation]] = []
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
        self, shape: BatchShape, select: Callable[[SizedTensor, Operation], bool] = lambda *_: True
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

    def _add(self, tensor: SizedTensor, operation: Operation) -> int:
        self._allocated.append((tensor, operation))
        return self._indices.setdefault(tensor, len(self._indices))

    def _find_activations(self, operations: list[Operation]) -> list[int]:
        """Return the indices of the tensors that the forward pass computes and the backward pass uses."""
        is_gradient = [_GRADIENT_TAPE in operation.name for operation in operations]
        start = is_gradient.index(True) if any(is_gradient) else len(operations)
        forward = {tensor for operation in operations[:start] for tensor in operation.outputs}
        used = {self._buffers.get(tensor, tensor) for one in operations[start:] for tensor in one.inputs}
        return sorted(self._indices[tensor] for tensor in used & forward & self._indices.keys())


def _find_buffers(operations: list[Operation]) -> dict[SizedTensor, SizedTensor]:
    """Map each output of an aliasing operation to the tensor whose memory it shares."""
    buffers = {}
    for operation in operations:
        if operation.kind in ALIASES and operation.inputs:
            inputs = operation.inputs if operation.kind == "IdentityN" else operation.inputs[:1]
            for output, shared in zip(operation.outputs, inputs, strict=True):
                buffers[output] = buffers.get(shared, shared)
    return buffers
