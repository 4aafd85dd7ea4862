"""The scores of attention before and after they are scaled, counted."""

import dataclasses

import numpy as np

from bert_keras.analysis.inspection.forward_pass import Look

NUM_BINS = 60


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreHistograms:
    """Scores of all heads of each layer, counted in 60 bins. All layers have the same bins.

    Attributes:
        raw_edges, scaled_edges: `(61,)`.
        raw, scaled: `(L, 60)` counts, before and after the division by sqrt(H).
        raw_spread, scaled_spread: `(L,)` standard deviations.
        raw_peak, scaled_peak: `(L,)` the mean over all rows of the largest attention that a softmax gives of the
            scores as they are; scaled: the model's own.
    """

    raw_edges: np.ndarray
    scaled_edges: np.ndarray
    raw: np.ndarray
    scaled: np.ndarray
    raw_spread: np.ndarray
    scaled_spread: np.ndarray
    raw_peak: np.ndarray
    scaled_peak: np.ndarray


def score_histograms(look: Look) -> ScoreHistograms:
    """Counts the scores of a row, layer by layer."""
    num_layers = len(look.queries)
    lows, highs = zip(*(_range(look.raw_scores(layer)) for layer in range(num_layers)), strict=True)
    raw_edges = np.linspace(min(lows), max(highs) + 1e-6, NUM_BINS + 1)  # float64, where float32's scores are exact
    scaled_edges = raw_edges / np.sqrt(look.queries.shape[-1])
    of_layers = []
    for layer in range(num_layers):
        raw, scaled = look.raw_scores(layer), look.scaled_scores(layer)
        counts = np.histogram(raw.astype(np.float64), raw_edges)[0]  # edges are divided as scores are
        of_layers.append(
            {
                "raw": counts,
                "scaled": counts,
                "raw_spread": raw.std(),
                "scaled_spread": scaled.std(),
                "raw_peak": _peak(raw),
                "scaled_peak": _peak(scaled),
            }
        )
    columns = {name: np.array([of_layer[name] for of_layer in of_layers]) for name in of_layers[0]}
    return ScoreHistograms(raw_edges, scaled_edges, **columns)


def _range(scores: np.ndarray) -> tuple[float, float]:
    return float(scores.min()), float(scores.max())


def _peak(scores: np.ndarray) -> float:
    """Returns the mean of the largest of each row's softmax: 1 / sum(exp(score - largest))."""
    return float((1 / np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)).mean())
