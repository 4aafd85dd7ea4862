"""Pictures' worth of fixed functions: GELU beside ReLU and its tanh form, positions learned beside sinusoidal."""

import numpy as np
from keras import ops

from bert_keras.analysis.inspection.token_vectors import unit
from bert_keras.modeling import BertEncoder
from bert_keras.modeling.layers import ACTIVATIONS, sinusoidal_positions

MOST_POSITIONS = 128  # that stand in a map; of more the first ones, since leaving out some would blur waves


def activation_curves(num_points: int = 161, limit: float = 4.0) -> dict[str, np.ndarray]:
    """Returns `x`, and every activation of `bert_keras` at it, by its name: `(num_points,)` float32 each."""
    x = np.linspace(-limit, limit, num_points, dtype=np.float32)
    return {"x": x} | {name: ops.convert_to_numpy(function(x)) for name, function in ACTIVATIONS.items()}


def gelu_difference() -> tuple[float, float]:
    """Measures how far GELU and its tanh form differ at most, in float32 from -8 to 8 by 0.0001.

    Returns:
        The largest difference, and the x where it stands.
    """
    curves = activation_curves(160_001, 8.0)
    differences = np.abs(curves["gelu"] - curves["gelu_tanh"])
    place = int(differences.argmax())
    return float(differences[place]), float(curves["x"][place])


def position_tables(encoder: BertEncoder) -> dict[str, np.ndarray]:
    """Returns position embeddings, `(max_sequence_length, embedding_dim)` float32 each.

    Returns:
        "sinusoidal", those of Vaswani et al. (2017), 3.5; and "learned" if the encoder has learned ones.
    """
    config = encoder.config
    tables = {"sinusoidal": sinusoidal_positions(config.max_sequence_length, config.embedding_dim)}
    if encoder.embeddings.position is not None:
        learned = ops.convert_to_numpy(encoder.embeddings.position.embeddings).astype(np.float32)
        tables = {"learned": learned, **tables}
    return tables


def position_similarity(table: np.ndarray) -> np.ndarray:
    """Returns the cosines of all position vectors `(P, E)` with each other, `(P, P)`."""
    vectors = unit(table)
    return vectors @ vectors.T


def by_distance(cosines: np.ndarray) -> np.ndarray:
    """Returns the mean cosine `(P,)` of positions that lie 0, 1, 2, ... places apart in `(P, P)`."""
    return np.array([np.diagonal(cosines, offset).mean() for offset in range(len(cosines))])
