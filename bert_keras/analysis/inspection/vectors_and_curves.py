"""Cosine similarity of token vectors and position embeddings, and curves of activation functions."""

import dataclasses

import numpy as np
from keras import ops

from bert_keras.modeling import BertEncoder
from bert_keras.modeling.layers import ACTIVATIONS, compute_sinusoidal_positions

MAX_POSITIONS = 128  # in a map of positions; skipping positions instead would blur the waves


@dataclasses.dataclass(frozen=True, eq=False)
class Similarity:
    """Cosine similarity between the token vectors of a sequence. L layers, S tokens; state 0 is the embeddings.

    Attributes:
        to_previous: `(L, S)`, each token's vector after layer l and before it.
        to_embeddings: `(L, S)`, each token's vector after layer l and its embedding.
        between_tokens: `(L + 1, S, S)`, all pairs of tokens in the same state.
    """

    to_previous: np.ndarray
    to_embeddings: np.ndarray
    between_tokens: np.ndarray

    @property
    def anisotropy(self) -> np.ndarray:
        """The mean cosine of two different tokens in each state, `(L + 1,)` (Ethayarajh 2019, 3.3)."""
        size = self.between_tokens.shape[-1]
        return self.between_tokens[:, ~np.eye(size, dtype=bool)].mean(-1)


def compute_similarity(hidden_states: np.ndarray) -> Similarity:
    """Compute the cosine similarity between the token vectors of a sequence.

    Args:
        hidden_states: `(L + 1, S, D)`.

    Example:
        >>> compute_similarity(np.ones((3, 2, 4), "float32")).anisotropy.tolist()
        [1.0, 1.0, 1.0]
    """
    directions = _normalize(hidden_states)
    return Similarity(
        to_previous=(directions[1:] * directions[:-1]).sum(-1),
        to_embeddings=(directions[1:] * directions[:1]).sum(-1),
        between_tokens=directions @ directions.transpose(0, 2, 1),
    )


def compute_activations(num_points: int = 161, limit: float = 4.0) -> dict[str, np.ndarray]:
    """Compute `x` and every activation function at `x`, keyed by name: `(num_points,)` float32 each."""
    x = np.linspace(-limit, limit, num_points, dtype=np.float32)
    return {"x": x} | {name: ops.convert_to_numpy(function(x)) for name, function in ACTIVATIONS.items()}


def measure_gelu_difference() -> tuple[float, float]:
    """Measure the largest difference between GELU and its tanh approximation, in float32 from -8 to 8 by 0.0001.

    Returns:
        The largest difference, and the x where it occurs.
    """
    curves = compute_activations(160_001, 8.0)
    differences = np.abs(curves["gelu"] - curves["gelu_tanh"])
    index = int(differences.argmax())
    return float(differences[index]), float(curves["x"][index])


def get_position_tables(encoder: BertEncoder) -> dict[str, np.ndarray]:
    """Return tables of position embeddings, `(max_sequence_length, embedding_dim)` float32 each.

    Returns:
        "learned", if the encoder has learned positions, and "sinusoidal", those of Vaswani et al. (2017), 3.5.
    """
    config = encoder.config
    tables = {"sinusoidal": compute_sinusoidal_positions(config.max_sequence_length, config.embedding_dim)}
    if encoder.embeddings.position is not None:
        learned = ops.convert_to_numpy(encoder.embeddings.position.embeddings).astype(np.float32)
        tables = {"learned": learned, **tables}
    return tables


def compute_position_similarity(table: np.ndarray) -> np.ndarray:
    """Compute the cosines `(P, P)` of all pairs of position vectors `(P, E)`."""
    vectors = _normalize(table)
    return vectors @ vectors.T


def average_by_distance(cosines: np.ndarray) -> np.ndarray:
    """Average cosines `(P, P)` over all positions at distance 0, 1, 2, ...: `(P,)`."""
    return np.array([np.diagonal(cosines, distance).mean() for distance in range(len(cosines))])


def _normalize(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors `(..., D)` to length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
