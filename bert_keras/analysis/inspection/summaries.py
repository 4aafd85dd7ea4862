"""Summaries in numbers: attention heads, similarity of vectors and positions, curves of activation functions.

Importing this module loads no Keras, so that `bert-keras inspect` checks its arguments at once.
"""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import InputError

if typing.TYPE_CHECKING:
    from bert_keras.architectures.encoder import BertEncoder

CLS, SEP, ITSELF, PREVIOUS, NEXT = "[CLS]", "[SEP]", "itself", "previous", "next"
BROAD, LOCAL, MIXED = "broad", "local", "mixed"
HEADINGS = {"cls": CLS, "sep": SEP}  # of statistics whose heading is not their name
NEAR_TOKENS = 3  # distance of a near token
MAJORITY = 0.5  # share of attention that determines the kind of a head
MAX_POSITIONS = 128  # in a map of positions; skipping positions instead would blur the waves


@dataclasses.dataclass(frozen=True)
class HeadSummary:
    """Statistics of one attention head on one sequence of S tokens, averaged over the queries.

    The shares overlap: attention from [CLS] to [CLS] counts in `cls` and in `itself`.

    Attributes:
        layer, head: indices, from 0.
        kind: "[CLS]", "[SEP]", "itself", "previous" or "next", the largest of these five shares, if it is at least
            half of the attention. Else "broad" if the entropy is at least that of uniform attention to half of all
            tokens (2^entropy >= S / 2). Else "local" if at least half of the attention is within 3 tokens. Else
            "mixed".
        distance: mean distance |i - j| in tokens, weighted by the attention from query i to key j.
        entropy: in bits, from 0 (a single key) to log2 S (uniform).
        cls, sep: share of attention to [CLS], and to all [SEP] together.
        itself, previous, next: share of attention to the query's own position, the previous one and the next one.
        near: share of attention within 3 tokens.
    """

    layer: int
    head: int
    kind: str
    distance: float
    entropy: float
    cls: float
    sep: float
    itself: float
    previous: float
    next: float
    near: float


def check_index(name: str, index: int | None, count: int) -> None:
    """Raise `InputError` if the model has no layer or head with this index."""
    if index is not None and not 0 <= index < count:
        valid = f"{name}s 0 to {count - 1}: choose one of them" if count > 1 else f"only {name} 0: leave it out"
        raise InputError(f"there is no {name} {index}; the model has {valid}")


def summarize_heads(attention: np.ndarray, tokens: Sequence[str]) -> tuple[HeadSummary, ...]:
    """Summarize every head, following Clark et al. (2019), "What Does BERT Look At?", 3.

    Args:
        attention: `(L, N, S, S)`, attention probabilities; axis -2 is the query, axis -1 the key.
        tokens: the S tokens, with "[CLS]" and "[SEP]".

    Returns:
        L * N summaries, layer by layer.

    Example:
        >>> summarize_heads(np.eye(3)[None, None], ["[CLS]", "play", "[SEP]"])[0].kind
        'itself'
    """
    statistics = _compute_statistics(np.asarray(attention, np.float64), tokens)
    summaries = []
    for layer, head in np.ndindex(attention.shape[:2]):
        numbers = {name: float(values[layer, head]) for name, values in statistics.items()}
        summaries.append(HeadSummary(layer, head, _classify(numbers, len(tokens)), **numbers))
    return tuple(summaries)


def _classify(numbers: dict[str, float], num_tokens: int) -> str:
    """Return the kind of a head; see `HeadSummary.kind`."""
    shares = {CLS: "cls", SEP: "sep", ITSELF: "itself", PREVIOUS: "previous", NEXT: "next"}
    largest = max(shares, key=lambda kind: numbers[shares[kind]])
    if numbers[shares[largest]] >= MAJORITY:
        return largest
    if 2 ** numbers["entropy"] >= num_tokens / 2:
        return BROAD
    return LOCAL if numbers["near"] >= MAJORITY else MIXED


def _compute_statistics(attention: np.ndarray, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """Compute the statistics of all heads, `(L, N)` each."""
    positions = np.arange(len(tokens))
    distances = np.abs(positions[:, None] - positions[None, :])
    logs = np.log2(attention, where=attention > 0, out=np.zeros_like(attention))
    return {
        "distance": (attention * distances).sum(-1).mean(-1),
        "entropy": -(attention * logs).sum(-1).mean(-1),
        "cls": attention[..., np.equal(tokens, CLS)].sum(-1).mean(-1),
        "sep": attention[..., np.equal(tokens, SEP)].sum(-1).mean(-1),
        # to the key at a distance from the query, over the queries that have such a key
        "itself": np.diagonal(attention, 0, axis1=-2, axis2=-1).mean(-1),
        "previous": np.diagonal(attention, -1, axis1=-2, axis2=-1).mean(-1),
        "next": np.diagonal(attention, 1, axis1=-2, axis2=-1).mean(-1),
        "near": (attention * (distances <= NEAR_TOKENS)).sum(-1).mean(-1),
    }


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
    from keras import ops

    from bert_keras.architectures.layers import ACTIVATIONS

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


def get_position_tables(encoder: "BertEncoder") -> dict[str, np.ndarray]:
    """Return tables of position embeddings, `(max_sequence_length, embedding_dim)` float32 each.

    Returns:
        "learned", if the encoder has learned positions, and "sinusoidal", those of Vaswani et al. (2017), 3.5.
    """
    from keras import ops

    from bert_keras.architectures.layers import compute_sinusoidal_positions

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
