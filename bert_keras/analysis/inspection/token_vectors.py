"""How the vectors of the tokens change from layer to layer, and how alike they become."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Similarity:
    """Cosines between vectors of one row. L layers, S tokens; state 0 is what goes into the first block.

    Attributes:
        to_previous: `(L, S)`, of each token's vector after layer l with its vector before it.
        to_embeddings: `(L, S)`, with the vector that goes into the first block.
        between_tokens: `(L + 1, S, S)`, of every two tokens in the same state.
    """

    to_previous: np.ndarray
    to_embeddings: np.ndarray
    between_tokens: np.ndarray

    @property
    def anisotropy(self) -> np.ndarray:
        """The mean cosine of two different tokens in each state, `(L + 1,)` (Ethayarajh 2019, 3.3)."""
        size = self.between_tokens.shape[-1]
        others = ~np.eye(size, dtype=bool)
        return self.between_tokens[:, others].mean(-1)


def similarity(hidden_states: np.ndarray) -> Similarity:
    """Compares the vectors of a row.

    Args:
        hidden_states: `(L + 1, S, D)`.

    Example:
        >>> similarity(np.ones((3, 2, 4), "float32")).anisotropy.tolist()
        [1.0, 1.0, 1.0]
    """
    directions = unit(hidden_states)
    return Similarity(
        to_previous=(directions[1:] * directions[:-1]).sum(-1),
        to_embeddings=(directions[1:] * directions[:1]).sum(-1),
        between_tokens=directions @ directions.transpose(0, 2, 1),
    )


def unit(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors `(..., D)` at length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
