"""`Lifetimes`: which tensors of a traced function are in memory together."""

import dataclasses
from collections.abc import Callable, Iterator

from bert_keras.analysis.cost_model.tracing.sized_graph import SizedGraph, SizedOperation, SizedTensor, Sizes

ALIASES = ("ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient")  # give what they were given
NOT_MADE = ("Const", "Placeholder", "ReadVariableOp", "VarHandleOp")  # was there before the function ran
# TensorFlow writes their result over an input that nobody else reads
_IN_PLACE = (
    *("Add", "AddN", "AddV2", "BiasAdd", "Mul", "Neg", "RealDiv", "SelectV2", "Sub"),
    *("Erf", "Exp", "Relu", "Rsqrt", "Softmax", "Sqrt", "Square", "Tanh"),
)
_GRADIENT_TAPE = "gradient_tape/"  # TensorFlow's scope of what a tape computes


@dataclasses.dataclass(frozen=True)
class _Run:
    """An operation, by the numbers of the tensors that it makes and of those that it is the last to read."""

    made: tuple[int, ...]
    ended: tuple[int, ...]
    in_place: bool


class Lifetimes:
    """The tensors of a traced function as they come and go.

    As if its operations ran one after the other in the order of the program: a tensor lives from the operation that
    makes it to the last that reads it, or to the end where the function returns it. Weights are not among them.
    """

    def __init__(self, graph: SizedGraph):
        self._memory_of = _memories(graph.operations)  # a tensor -> the one whose memory it is
        self._made: list[tuple[SizedTensor, SizedOperation]] = []
        self._numbers: dict[SizedTensor, int] = {}
        self._runs = list(self._in_order(graph))
        self._kept = self._numbers_kept(graph.operations)
        self._bytes_of = graph.bytes_of([tensor for tensor, _ in self._made])

    def peak_bytes(self, sizes: Sizes) -> int:
        """Returns the most that is in memory at once."""
        bytes_of = self._bytes_of(sizes).tolist()
        now = peak = 0
        for run in self._runs:
            ended, made = ([bytes_of[number] for number in some] for some in (run.ended, run.made))
            is_over = run.in_place and made != [] and made[0] in ended
            peak = max(peak, now + (0 if is_over else sum(made)))
            now += sum(made) - sum(ended)
        return peak

    def kept_bytes(self, sizes: Sizes, of: Callable[[SizedTensor, SizedOperation], bool] = lambda *_: True) -> int:
        """Returns what the forward pass keeps for the gradients: of all tensors, or of some, told with their makers."""
        return int(self._bytes_of(sizes)[[number for number in self._kept if of(*self._made[number])]].sum())

    def _in_order(self, graph: SizedGraph) -> Iterator[_Run]:
        last_reader = self._last_readers(graph)
        for place, operation in enumerate(graph.operations):
            made = () if operation.kind in (*ALIASES, *NOT_MADE) else operation.outputs
            numbers = tuple(self._number(tensor, operation) for tensor in made if tensor in last_reader)
            read = dict.fromkeys(self._memory_of.get(tensor, tensor) for tensor in operation.inputs)
            ended = (self._numbers[one] for one in read if last_reader[one] == place and one in self._numbers)
            yield _Run(numbers, tuple(ended), operation.kind in _IN_PLACE)

    def _last_readers(self, graph: SizedGraph) -> dict[SizedTensor, int]:
        """Returns the place of the last operation that reads each tensor; of what is returned a place after all."""
        places = {}
        for place, operation in enumerate(graph.operations):
            for tensor in operation.inputs:
                places[self._memory_of.get(tensor, tensor)] = place
        returned = (self._memory_of.get(tensor, tensor) for tensor in graph.outputs)
        return places | dict.fromkeys(returned, len(graph.operations))

    def _number(self, tensor: SizedTensor, maker: SizedOperation) -> int:
        self._made.append((tensor, maker))
        return self._numbers.setdefault(tensor, len(self._numbers))

    def _numbers_kept(self, operations: list[SizedOperation]) -> list[int]:
        border = next((i for i, one in enumerate(operations) if _GRADIENT_TAPE in one.name), len(operations))
        made = {tensor for operation in operations[:border] for tensor in operation.outputs}
        read = (self._memory_of.get(tensor, tensor) for one in operations[border:] for tensor in one.inputs)
        return sorted({self._numbers[one] for one in read if one in made and one in self._numbers})


def _memories(operations: list[SizedOperation]) -> dict[SizedTensor, SizedTensor]:
    """Returns, for what only gives on another tensor's memory, that tensor."""
    memories = {}
    for operation in operations:
        if operation.kind in ALIASES and operation.inputs:
            of_each = operation.inputs if operation.kind == "IdentityN" else operation.inputs[:1]
            for tensor, given in zip(operation.outputs, of_each, strict=True):
                memories[tensor] = memories.get(given, given)
    return memories
