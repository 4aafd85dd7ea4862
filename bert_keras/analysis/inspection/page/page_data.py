"""The data that the script of an inspection page draws: maps as bytes, numbers rounded."""

import base64
import dataclasses
import typing

import numpy as np

from bert_keras.analysis.inspection.forward_pass import ForwardPass, count_scores
from bert_keras.analysis.inspection.vectors_and_curves import (
    MAX_POSITIONS,
    Similarity,
    average_by_distance,
    compute_activations,
    compute_position_similarity,
)

if typing.TYPE_CHECKING:
    from bert_keras.analysis.inspection.inspecting import Inspection

MAX_MAP_BYTES = 8_000_000  # of all attention maps; base64 makes the page a third larger
MAX_ROUNDING_ERROR = "0.00001"  # of a probability p that is stored as round(65535 p); measured: 0.0000077
_BYTES_PER_PROBABILITY = 2


def make_page_data(inspection: "Inspection") -> dict:
    """Return all data for the script of an inspection page."""
    num_shown = count_shown_tokens(inspection.attention.shape)
    return {
        "num_layers": inspection.config.num_layers,
        "num_heads": inspection.config.num_heads,
        "length": len(inspection.tokens),
        "tokens": list(inspection.tokens),
        "segments": inspection.forward_pass.sequence.segment_ids.tolist(),
        "heads": [_round_floats(dataclasses.asdict(head)) for head in inspection.heads],
        "attention": {
            "shown": num_shown,
            "maps": encode_probabilities(inspection.attention[:, :, :num_shown, :num_shown]),
            "layer": inspection.layer or 0,
            "head": inspection.head or 0,
        },
        "scores": _make_scores(inspection.forward_pass),
        "similarity": _make_similarity(inspection.similarity, num_shown),
        "positions": _make_positions(inspection.positions),
        "activations": _make_activations(inspection.config.hidden_act),
    }


def count_shown_tokens(shape: tuple[int, ...]) -> int:
    """Return the number of tokens in the maps of a page: all, or as many as fit into 8 MB.

    Args:
        shape: shape of the attention, `(L, N, S, S)`.

    Example:
        >>> count_shown_tokens((12, 12, 128, 128)), count_shown_tokens((24, 16, 512, 512))
        (128, 102)
    """
    num_layers, num_heads, length, _ = shape
    return min(length, int((MAX_MAP_BYTES / (_BYTES_PER_PROBABILITY * num_layers * num_heads)) ** 0.5))


def encode_probabilities(probabilities: np.ndarray) -> str:
    """Encode probabilities as little-endian uint16, 0 to 65535, in base64."""
    return _encode(np.rint(65535.0 * np.clip(probabilities, 0, 1)).astype("<u2"))


def encode_cosines(cosines: np.ndarray) -> str:
    """Encode cosines from -1 to 1 as uint8, 0 to 255, in base64."""
    return _encode(np.rint(127.5 * (np.clip(cosines, -1, 1) + 1)).astype(np.uint8))


def _encode(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _round_floats(values: dict) -> dict:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


def _to_list(values: np.ndarray, digits: int = 4) -> list:
    return np.round(np.asarray(values, np.float64), digits).tolist()


def _make_scores(forward_pass: ForwardPass) -> dict:
    histograms = count_scores(forward_pass)
    names = ("raw_spread", "scaled_spread", "raw_peak", "scaled_peak")
    layers = [
        {
            "counts": histograms.counts[layer].tolist(),
            **{name: round(float(getattr(histograms, name)[layer]), 4) for name in names},
        }
        for layer in range(len(histograms.counts))
    ]
    return {
        "edges": _to_list(histograms.raw_edges, 5),
        "factor": float(histograms.scaled_edges[-1] / histograms.raw_edges[-1]),
        "layers": layers,
    }


def _make_similarity(similarity: Similarity, num_shown: int) -> dict:
    return {
        "to_previous": _to_list(similarity.to_previous[:, :num_shown]),
        "between": encode_cosines(similarity.between_tokens[:, :num_shown, :num_shown]),
        "means": {
            "to_previous": _to_list(similarity.to_previous.mean(1)),
            "to_embeddings": _to_list(similarity.to_embeddings.mean(1)),
            "anisotropy": _to_list(similarity.anisotropy),
        },
    }


def _make_positions(positions: dict[str, np.ndarray]) -> dict:
    tables = []
    for name, table in positions.items():
        cosines = compute_position_similarity(table)
        shown = cosines[:MAX_POSITIONS, :MAX_POSITIONS]
        distances = _to_list(average_by_distance(cosines), 3)
        tables.append({"name": name, "cosines": encode_cosines(shown), "by_distance": distances})
    return {"shown": len(shown), "tables": tables}


def _make_activations(hidden_act: str) -> dict:
    curves = compute_activations()
    x = curves.pop("x")
    names = {name: f"{name} (this model)" if name == hidden_act else name for name in curves}
    return {
        "x": _to_list(x),
        "curves": [{"name": names[name], "values": _to_list(values)} for name, values in curves.items()],
        "difference": _to_list(curves["gelu"] - curves["gelu_tanh"], 7),
    }
