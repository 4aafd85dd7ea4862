"""What one pass of a model in inference holds in memory, for batches of every shape."""

import dataclasses

import keras

from bert_keras.analysis.cost_model.tracing.lifetimes import Lifetimes
from bert_keras.analysis.cost_model.tracing.sized_graph import SizedGraph, Sizes
from bert_keras.analysis.cost_model.training_memory import bytes_of_weights
from bert_keras.analysis.cost_model.workloads import Workload, dimensions_of, slots_of, usual_lengths


@dataclasses.dataclass(frozen=True)
class InferenceMemory:
    """Bytes that a pass over batches of one shape takes.

    Attributes:
        batch_size, length: B and S.
        weights: of the model.
        tensors: the most that all other tensors take at one moment.
        attention_scores: of all blocks together, (B, N, S, S) each, float32: what it takes to keep them. Where a head
            reads some positions alone, in the last block only theirs.
    """

    batch_size: int
    length: int
    weights: int
    tensors: int
    attention_scores: int


def inference_memory(model: keras.Model, batch_size: int = 1) -> list[InferenceMemory]:
    """Returns the memory of one pass for rows of 32, 64, 128, ... tokens, up to what the model reads.

    Args:
        model: any; it is traced once, and nothing is computed.
        batch_size: B.
    """
    encoder = getattr(model, "encoder", model)
    longest = encoder.config.max_sequence_length

    def specs_of(sizes: Sizes) -> tuple:
        return (Workload(model, **dataclasses.asdict(sizes)).features(),)

    def forward(features):
        return model(features, training=False)

    graph = SizedGraph(forward, specs_of, longest, dimensions_of(model))
    lifetimes = Lifetimes(graph)
    scores = [one.outputs[0] for one in graph.operations if one.kind == "Softmax" and "/attention" in one.name]
    scores_of, found = graph.bytes_of(scores), []
    for length in usual_lengths(longest):
        sizes = Sizes(batch_size, length, slots_of(length))
        kept = int(scores_of(sizes).sum())
        weights = bytes_of_weights(model.weights)
        found.append(InferenceMemory(batch_size, length, weights, lifetimes.peak_bytes(sizes), kept))
    return found
