"""`Workload`: a model with the shape of its batches, and the operations of its forward pass and training step.

FLOPs: a multiply and an add count as two. Moving data (gather, transpose, reshape, concatenate) counts as zero, an
elementwise function (erf, exp, tanh, a square root) as one.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.analysis.cost_model.subjects import check_plan_length
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.checkpoints.building import get_encoder
from bert_keras.features import ENCODER_INPUTS
from bert_keras.heads.fill_mask.model import MaskedLMModel
from bert_keras.heads.known_heads import find_head_of_class
from bert_keras.heads.pretraining.electra import ID_BLOCK

Shape = tuple[int, ...]

_LENGTHS = (32, 64, 128, 256, 512)
MASKED_SHARE = 0.15  # of the tokens of a sequence, Devlin et al. 2018, 3.1
ENCODER = "encoder"  # the encoder's layer name in `Operation.layers`, whatever number Keras appended to it
_FLOPS_PER_OUTPUT = {
    **dict.fromkeys(("Add", "AddV2", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum"), 1),
    **dict.fromkeys(("Erf", "Exp", "Log", "Neg", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Square", "Tanh", "Relu"), 1),
    **dict.fromkeys(("ReluGrad", "SquaredDifference"), 2),
    **dict.fromkeys(("RsqrtGrad", "SqrtGrad", "TanhGrad"), 3),
    "Softmax": 5,  # maximum, subtraction, exp, sum, division
    "LogSoftmax": 5,
}
_ONE_FLOP_PER_INPUT = ("Mean", "Sum", "Max", "BiasAddGrad", "UnsortedSegmentSum")
_TRANSPOSES = {
    "MatMul": ("transpose_a", "transpose_b"),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), ("adj_x", "adj_y")),
}
MATRIX_PRODUCTS = tuple(_TRANSPOSES)
_WITHOUT_SIZE = (tf.resource, tf.variant, tf.string)
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


@dataclasses.dataclass(frozen=True, eq=False)
class SizedTensor:
    """A tensor of a traced function, compared by identity.

    Attributes:
        shape: shape on the traced batch; () if it is unknown.
        dtype: the data type, such as "float32".
        num_bytes: size on the traced batch; 0 for resources, variants and strings.
    """

    shape: Shape
    dtype: str
    num_bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """An operation of a traced function.

    Attributes:
        kind: TensorFlow's operation type, such as "MatMul".
        name: TensorFlow's operation name, with its name scopes.
        inputs, outputs: the tensors.
        transposes: for a matrix product, whether each factor is transposed first; else empty.
        layers: names of the enclosing layers, outermost first.
        is_backward: whether the operation belongs to the backward pass.
    """

    kind: str
    name: str
    inputs: tuple[SizedTensor, ...]
    outputs: tuple[SizedTensor, ...]
    transposes: tuple[bool, ...]
    layers: tuple[str, ...] = ()
    is_backward: bool = False

    @property
    def is_matrix_product(self) -> bool:
        """Whether the operation multiplies matrices."""
        return self.kind in MATRIX_PRODUCTS

    @property
    def is_floating(self) -> bool:
        """Whether the operation computes floating-point numbers."""
        return bool(self.outputs) and tf.as_dtype(self.outputs[0].dtype).is_floating

    @property
    def is_attention_softmax(self) -> bool:
        """Whether the operation computes attention probabilities."""
        return self.kind == "Softmax" and "attention" in self.layers

    @functools.cached_property
    def flops(self) -> int:
        """Floating-point operations; operations on integers and booleans count as zero."""
        if not self.is_floating:
            return 0
        num_outputs = math.prod(self.outputs[0].shape)
        if self.is_matrix_product:
            return 2 * num_outputs * self.inputs[0].shape[-2 if self.transposes[0] else -1]
        if self.kind in _ONE_FLOP_PER_INPUT:
            return math.prod(self.inputs[0].shape)
        if self.kind == "AddN":
            return (len(self.inputs) - 1) * num_outputs
        if self.kind == "SparseSoftmaxCrossEntropyWithLogits":
            return 6 * math.prod(self.inputs[0].shape)
        return _FLOPS_PER_OUTPUT.get(self.kind, 0) * num_outputs


def trace_graph(function: Callable, *specs: object) -> tf.Graph:
    """Trace a function and inline all functions that it calls, so that the graph holds every operation."""
    previous = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # inlines inner functions; the outermost one is still traced
    try:
        return tf.function(function, autograph=False).get_concrete_function(*specs).graph
    finally:
        tf.config.run_functions_eagerly(previous)


def list_operations(graph: tf.Graph, *, with_side_effects: bool = False) -> tuple[list[Operation], list[SizedTensor]]:
    """List the operations that the outputs of a traced function depend on, in program order, and its outputs.

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
    tensors: dict[object, SizedTensor] = {}

    def convert(tensor: tf.Tensor) -> SizedTensor:
        return tensors.setdefault(tensor.ref(), _measure(tensor))

    operations = [
        Operation(
            kind=operation.type,
            name=operation.name,
            inputs=tuple(map(convert, operation.inputs)),
            outputs=tuple(map(convert, operation.outputs)),
            transposes=tuple(map(operation.get_attr, _TRANSPOSES.get(operation.type, ()))),
        )
        for operation in graph.get_operations()
        if operation in needed
    ]
    return operations, [convert(tensor) for tensor in graph.outputs]


def _measure(tensor: tf.Tensor) -> SizedTensor:
    is_axis_list = tensor.shape.rank == 1 and tensor.dtype.is_integer and tensor.shape[0] is None  # Keras 3.12
    if tensor.shape.rank is None or tensor.dtype in _WITHOUT_SIZE or is_axis_list:
        return SizedTensor((), tensor.dtype.name, 0)
    shape = tuple(tensor.shape)
    return SizedTensor(shape, tensor.dtype.name, math.prod(shape) * tensor.dtype.size)


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
            tf.no_op(name=_BACKWARD_MARKER)  # the operations from here on are `Operation.is_backward`
            return tape.gradient(loss, variables)

        try:
            return self._trace(train, *self.example_specs())
        finally:
            model.compiled = was_compiled

    def _trace(self, function: Callable, *specs: object) -> list[Operation]:
        """Trace a function, and return the operations that its outputs depend on, in program order."""
        names = {name for weight in self.model.weights for name in weight.path.split("/")[:-1]}
        layers = {name: ENCODER if name == self.encoder.name else name for name in names}
        graph = trace_graph(function, *specs)
        in_graph = [operation.name for operation in graph.get_operations()]
        start = next((place for place, name in enumerate(in_graph) if name.startswith(_BACKWARD_MARKER)), len(in_graph))
        backward = set(in_graph[start:])
        described = []
        for operation in list_operations(graph)[0]:
            *scopes, _ = operation.name.split("/")
            # TensorFlow opens the scope `block_0_1` when `block_0` is called a second time
            scopes = [name if name in layers else re.sub(r"_\d+$", "", name) for name in scopes]
            path = tuple(layers[name] for name in scopes if name in layers)
            described.append(dataclasses.replace(operation, layers=path, is_backward=operation.name in backward))
        return described

    def feature_specs(self, training: bool = False) -> dict[str, tf.TensorSpec]:
        """Return the specs of the model's inputs."""
        specs = {name: self._make_spec(self.shape.length) for name in (*ENCODER_INPUTS, "segment_ids")}
        # ELECTRA's discriminator alone, which is used in inference, takes no masked positions
        if isinstance(self.model, MaskedLMModel) or (training and any(axes == "M" for _, axes, _ in self._labels)):
            specs["mask_positions"] = self._make_spec(self.shape.num_masked)
        return specs

    def example_specs(self) -> tuple:
        """Return the specs of the features and labels of a training step."""
        features = self.feature_specs(training=True)
        if getattr(self.model, "problem", "single_label") != "single_label":
            return features, self._make_spec(self.model.num_classes, dtype="float32")
        sizes = {"S": self.shape.length, "M": self.shape.num_masked}
        specs = {name: self._make_spec(*map(sizes.get, axes), dtype=dtype) for name, axes, dtype in self._labels}
        return features, specs.get(None, specs)

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
