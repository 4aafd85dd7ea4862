"""What a model's operations cost: floating-point operations by part."""

import collections
import dataclasses
from collections.abc import Iterable

from bert_keras.analysis.cost_model.parameters import component_of
from bert_keras.analysis.cost_model.tracing.recording import Operation

QKV, SCORES, CONTEXT, OUTPUT, FEED_FORWARD = "QKV", "scores", "context", "attention output", "feed-forward"
ELEMENTWISE = "elementwise"  # sums, norms, softmax, GELU: all but the products of matrices
_PARTS = {
    "attention Q": QKV,
    "attention K": QKV,
    "attention V": QKV,
    "attention output": OUTPUT,
    "feed-forward in": FEED_FORWARD,
    "feed-forward out": FEED_FORWARD,
}
_SECOND_PRODUCT = "MatMul_1"  # TensorFlow's name for the second one of a layer


@dataclasses.dataclass(frozen=True)
class Flops:
    """Floating-point operations of a part of a model.

    Attributes:
        part: "QKV", "scores", "elementwise", or the name of a head's layer.
        forward, backward: in one pass.
    """

    part: str
    forward: int
    backward: int


def flops_by_part(operations: Iterable[Operation], block: int | None = None) -> list[Flops]:
    """Adds up operations by part, in the order of the model.

    Args:
        operations: of a forward pass or a training step.
        block: count this block alone; None: the whole model.
    """
    forward, backward = collections.Counter(), collections.Counter()
    for operation in operations:
        if operation.flops and (block is None or f"block_{block}" in operation.layers):
            (backward if operation.is_backward else forward)[_part(operation)] += operation.flops
    parts = dict.fromkeys((*(part for part in forward if part != ELEMENTWISE), *backward, ELEMENTWISE))
    return [Flops(part, forward[part], backward[part]) for part in parts]


def _part(operation: Operation) -> str:
    if not operation.is_product:
        return ELEMENTWISE
    layer = "/".join(operation.layers)
    if operation.layers and operation.layers[-1] == "attention":
        *scope, own_name = operation.source.name.split("/")
        return CONTEXT if _SECOND_PRODUCT in (scope if operation.is_backward else (own_name,)) else SCORES
    name = component_of(layer) if layer else "loss"
    return _PARTS.get(name, name)
