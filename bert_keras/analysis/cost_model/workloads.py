"""`Workload`: a model with the shape of its batches, and the operations of its forward pass and training step.

FLOPs: a multiply and an add count as two. Moving data (gather, transpose, reshape, concatenate) counts as zero, an
elementwise function (erf, exp, tanh, a square root) as one.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.subjects import check_plan_length
from bert_keras.checkpoints.building import get_encoder
from bert_keras.features import ENCODER_INPUTS
from bert_keras.heads.known_heads import find_head_of_class
from bert_keras.modeling import BertEncoder
from bert_keras.modeling.electra import ID_BLOCK
from bert_keras.modeling.masked_lm import MaskedLMModel

Shape = tuple[int, ...]

_LENGTHS = (32, 64, 128, 256, 512)
MASKED_SHARE = 0.15  # of the tokens of a sequence, Devlin et al. 2018, 3.1
ENCODER = "encoder"  # the encoder's layer name in `Operation.layers`, whatever number Keras appended to it
MATRIX_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_FLOPS_PER_OUTPUT = {
    **dict.fromkeys(("Add", "AddV2", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum"), 1),
    **dict.fromkeys(("Erf", "Exp", "Log", "Neg", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Square", "Tanh", "Relu"), 1),
    **dict.fromkeys(("ReluGrad", "SquaredDifference"), 2),
    **dict.fromkeys(("RsqrtGrad", "SqrtGrad", "TanhGrad"), 3),
    "Softmax": 5,  # maximum, subtraction, exp, sum, division
    "LogSoftmax": 5,
}
_ONE_FLOP_PER_INPUT = ("Mean", "Sum", "Max", "BiasAddGrad", "UnsortedSegmentSum")
_BACKWARD_MARKER = "the_gradients_begin_here"


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """The shape of a batch.

    Args:
        batch_size: B, sequences per batch.
        length: S, tokens per sequence.
        num_masked: M, masked positions per sequence; default: 15 % of the tokens.
    """

    batch_size: int
    length: int
    num_masked: int | None = None

    def __post_init__(self) -> None:
        if self.num_masked is None:
            object.__setattr__(self, "num_masked", max(1, round(MASKED_SHARE * self.length)))


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of a traced function.

    Attributes:
        kind: TensorFlow's operation type, such as "MatMul".
        layers: names of the enclosing layers, outermost first.
        is_backward: whether the operation belongs to the backward pass.
        inputs, outputs: shapes of the inputs and outputs.
        flops: floating-point operations.
        source: the TensorFlow object.
    """

    kind: str
    layers: tuple[str, ...]
    is_backward: bool
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    flops: int
    source: tf.Operation = dataclasses.field(repr=False)

    @property
    def is_matrix_product(self) -> bool:
        """Whether the operation multiplies matrices."""
        return self.kind in MATRIX_PRODUCTS

    @property
    def is_attention_softmax(self) -> bool:
        """Whether the operation computes attention probabilities."""
        return self.kind == "Softmax" and "attention" in self.layers


def trace_operations(function: Callable, *specs: object, layers: Mapping[str, str] | None = None) -> list[Operation]:
    """Trace a function, and return the operations that its outputs depend on, in program order. Nothing is computed.

    Args:
        function: a function that TensorFlow can trace; it may call `compute_gradients` once.
        *specs: a `tf.TensorSpec` of known shape, or a nested structure of them, for each argument.
        layers: maps layer names to the names in `Operation.layers`. With it, `block_0_1`, the scope that TensorFlow
            opens when `block_0` is called a second time, counts as `block_0`.

    Example:
        >>> operations = trace_operations(lambda x: x @ tf.ones((3, 4)), tf.TensorSpec((2, 3)))
        >>> [operation.flops for operation in operations if operation.is_matrix_product]
        [48]
    """
    graph = trace_graph(function, *specs)
    names = [operation.name for operation in graph.get_operations()]
    start = next((index for index, name in enumerate(names) if name.startswith(_BACKWARD_MARKER)), len(names))
    backward = set(names[start:])
    return [_describe(operation, operation.name in backward, layers or {}) for operation in list_operations(graph)]


def trace_graph(function: Callable, *specs: object) -> tf.Graph:
    """Trace a function and inline all functions that it calls, so that the graph holds every operation."""
    previous = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # inlines inner functions; the outermost one is still traced
    try:
        return tf.function(function, autograph=False).get_concrete_function(*specs).graph
    finally:
        tf.config.run_functions_eagerly(previous)


def compute_gradients(tape: tf.GradientTape, loss: tf.Tensor, variables: list) -> list:
    """Return the gradients of a loss; the operations traced from here on are `Operation.is_backward`."""
    tf.no_op(name=_BACKWARD_MARKER)
    return tape.gradient(loss, variables)


def list_operations(graph: tf.Graph, *, with_side_effects: bool = False) -> list[tf.Operation]:
    """List the operations that the outputs of a traced function depend on, in program order.

    Args:
        graph: the graph of the function.
        with_side_effects: include operations that run for their effect, such as weight updates. The list is then all
            that TensorFlow runs.
    """
    needed = set()
    waiting = [tensor.op for tensor in graph.outputs] + (list(graph.control_outputs) if with_side_effects else [])
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs if with_side_effects else ()
    return [operation for operation in graph.get_operations() if operation in needed]


def _describe(operation: tf.Operation, is_backward: bool, layers: Mapping[str, str]) -> Operation:
    *scopes, _ = operation.name.split("/")
    scopes = [name if name in layers else re.sub(r"_\d+$", "", name) for name in scopes]
    inputs, outputs = (
        tuple(tuple(tensor.shape) if tensor.shape.rank is not None else () for tensor in tensors)
        for tensors in (operation.inputs, operation.outputs)
    )
    return Operation(
        kind=operation.type,
        layers=tuple(layers[name] for name in scopes if name in layers),
        is_backward=is_backward,
        inputs=inputs,
        outputs=outputs,
        flops=_count_flops(operation, inputs, outputs),
        source=operation,
    )


def _count_flops(operation: tf.Operation, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Count the FLOPs of an operation from its shapes; operations on integers and booleans count as zero."""
    kind = operation.type
    if not outputs or not operation.outputs[0].dtype.is_floating:
        return 0
    if kind in MATRIX_PRODUCTS:
        is_transposed = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        return 2 * math.prod(outputs[0]) * inputs[0][-2 if is_transposed else -1]
    if kind in _ONE_FLOP_PER_INPUT:
        return math.prod(inputs[0])
    if kind == "AddN":
        return (len(inputs) - 1) * math.prod(outputs[0])
    if kind == "SparseSoftmaxCrossEntropyWithLogits":
        return 6 * math.prod(inputs[0])
    return _FLOPS_PER_OUTPUT.get(kind, 0) * math.prod(outputs[0])


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model and the shape of its batches.

    Args:
        model: an encoder, or a model with a head. Nothing is computed with it.
        shape: the shape of its batches; only masked-LM heads use the masked positions.

    Raises:
        InputError: the model does not accept sequences of this length.
    """

    model: keras.Model
    shape: BatchShape

    def __post_init__(self) -> None:
        check_plan_length(self.shape.length, self.encoder.config.max_sequence_length)

    @property
    def encoder(self) -> BertEncoder:
        """The encoder of the model."""
        return get_encoder(self.model)

    @property
    def is_trainable(self) -> bool:
        """Whether the model has its own loss. Encoders, embedders and ELECTRA without a generator have none."""
        return bool(self._labels)

    @property
    def _labels(self) -> tuple[tuple[str | None, str, str], ...]:
        """The labels of a training step, see `Head.labels`."""
        head = find_head_of_class(type(self.model))
        lacks_generator = getattr(self.model, "generator", self.model) is None
        return () if head is None or lacks_generator else head.labels

    @functools.cached_property
    def forward(self) -> list[Operation]:
        """The operations of a forward pass in inference."""
        return self._trace(lambda features: self.model(features, training=False), self.feature_specs())

    @functools.cached_property
    def training(self) -> list[Operation]:
        """The operations of a training step with the model's own loss, without the optimizer, if it `is_trainable`."""
        model = self.model
        was_compiled = model.compiled
        if not was_compiled:  # `compute_loss` needs a compiled model
            model.compile("sgd")
        variables = [weight.value for weight in model.trainable_weights]

        def train(features: dict, labels: object) -> list:
            with tf.GradientTape() as tape:
                outputs = model(features, training=True)
                loss = model.compute_loss(features, labels, outputs, training=True)
            return compute_gradients(tape, loss, variables)

        try:
            return self._trace(train, *self.example_specs())
        finally:
            model.compiled = was_compiled

    def _trace(self, function: Callable, *specs: object) -> list[Operation]:
        names = {name for weight in self.model.weights for name in weight.path.split("/")[:-1]}
        layers = {name: ENCODER if name == self.encoder.name else name for name in names}
        return trace_operations(function, *specs, layers=layers)

    def feature_specs(self, training: bool = False) -> dict[str, tf.TensorSpec]:
        """Return the specs of the model's inputs."""
        specs = {name: self._make_spec(self.shape.length) for name in (*ENCODER_INPUTS, "segment_ids")}
        # ELECTRA's discriminator alone, which is used in inference, takes no masked positions
        if isinstance(self.model, MaskedLMModel) or (training and any(axes == "M" for _, axes, _ in self._labels)):
            specs["mask_positions"] = self._make_spec(self.shape.num_masked)
        return specs

    def example_specs(self) -> tuple:
        """Return the specs of the features and labels of a training step."""
        return self.feature_specs(training=True), self._make_label_specs()

    def _make_label_specs(self) -> tf.TensorSpec | dict[str, tf.TensorSpec]:
        if getattr(self.model, "problem", "single_label") != "single_label":
            return self._make_spec(self.model.num_classes, dtype="float32")
        sizes = {"S": self.shape.length, "M": self.shape.num_masked}
        specs = {name: self._make_spec(*map(sizes.get, axes), dtype=dtype) for name, axes, dtype in self._labels}
        return specs.get(None, specs)

    def _make_spec(self, *sizes: int, dtype: str = "int32") -> tf.TensorSpec:
        return tf.TensorSpec((self.shape.batch_size, *sizes), dtype)


def list_dimensions(model: keras.Model) -> set[int]:
    """Return the sizes of tensor axes that do not depend on the batch."""
    config = get_encoder(model).config
    blocks = -(-config.vocabulary_size // ID_BLOCK)  # ELECTRA looks ids up in blocks
    weights = {size for weight in model.weights for size in weight.shape}
    return weights | {config.max_sequence_length, blocks, ID_BLOCK * blocks}


def choose_default_lengths(max_length: int) -> list[int]:
    """Return those of the lengths 32, 64, 128, 256 and 512 that a model accepts, or its maximum if that is shorter."""
    return [length for length in _LENGTHS if length <= max_length] or [max_length]
