"""What the script of the page draws, as plain values: maps in bytes, numbers rounded."""

import base64
import dataclasses

import numpy as np

from bert_keras.analysis.inspection.curves import (
    MOST_POSITIONS,
    activation_curves,
    by_distance,
    position_similarity,
)
from bert_keras.analysis.inspection.histograms import score_histograms

MOST_MAP_BYTES = 8_000_000  # of all maps of attention; the page is a third larger, since bytes become letters
LARGEST_ERROR = "0.00001"  # of a share a that is kept as round(65535 a); measured: 0.0000077
_BYTES_A_SHARE = 2


def page_data(inspection) -> dict:
    """Returns everything that the script of an inspection's page reads."""
    shown = num_shown(inspection.attention.shape)
    return {
        "num_layers": inspection.config.num_layers,
        "num_heads": inspection.config.num_heads,
        "length": len(inspection.tokens),
        "tokens": list(inspection.tokens),
        "segments": inspection.look.row.segment_ids.tolist(),
        "heads": [_rounded(dataclasses.asdict(head)) for head in inspection.heads],
        "attention": {
            "shown": shown,
            "maps": of_shares(inspection.attention[:, :, :shown, :shown]),
            "layer": inspection.layer or 0,
            "head": inspection.head or 0,
        },
        "scores": _scores(inspection.look),
        "similarity": _similarity(inspection.similarity, shown),
        "positions": _positions(inspection),
        "activations": _activations(inspection.config.hidden_act),
    }


def num_shown(shape: tuple[int, ...]) -> int:
    """Returns how many tokens the maps of a page show: all, or as many as 8 MB hold.

    Args:
        shape: of the attention, `(L, N, S, S)`.

    Example:
        >>> num_shown((12, 12, 128, 128)), num_shown((24, 16, 512, 512))
        (128, 102)
    """
    num_layers, num_heads, length, _ = shape
    return min(length, int((MOST_MAP_BYTES / (_BYTES_A_SHARE * num_layers * num_heads)) ** 0.5))


def of_shares(shares: np.ndarray) -> str:
    """Returns shares from 0 to 1 as two bytes each, the lower one first: 0 is 0, 1 is 65535; in base 64."""
    return _letters(np.rint(65535.0 * np.clip(shares, 0, 1)).astype("<u2"))


def of_cosines(cosines: np.ndarray) -> str:
    """Returns cosines as a byte each: -1 is 0, 1 is 255; in base 64."""
    return _letters(np.rint(127.5 * (np.clip(cosines, -1, 1) + 1)).astype(np.uint8))


def _letters(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _rounded(values: dict) -> dict:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


def _list(values: np.ndarray, digits: int = 4) -> list:
    return np.round(np.asarray(values, np.float64), digits).tolist()


def _scores(look) -> dict:
    found = score_histograms(look)
    layers = [
        {
            "raw": found.raw[layer].tolist(),
            "scaled": found.scaled[layer].tolist(),
            **{
                name: round(float(getattr(found, name)[layer]), 4)
                for name in ("raw_spread", "scaled_spread", "raw_peak", "scaled_peak")
            },
        }
        for layer in range(len(found.raw))
    ]
    return {
        "edges": _list(found.raw_edges, 5),
        "factor": float(found.scaled_edges[-1] / found.raw_edges[-1]),
        "layers": layers,
    }


def _similarity(found, shown: int) -> dict:
    return {
        "to_previous": _list(found.to_previous[:, :shown]),
        "between": of_cosines(found.between_tokens[:, :shown, :shown]),
        "means": {
            "to_previous": _list(found.to_previous.mean(1)),
            "to_embeddings": _list(found.to_embeddings.mean(1)),
            "anisotropy": _list(found.anisotropy),
        },
    }


def _positions(inspection) -> dict:
    tables = []
    for name, table in inspection.positions.items():
        cosines = position_similarity(table)
        shown = cosines[:MOST_POSITIONS, :MOST_POSITIONS]
        tables.append({"name": name, "cosines": of_cosines(shown), "by_distance": _list(by_distance(cosines), 3)})
    return {"shown": len(shown), "tables": tables}


def _activations(used: str) -> dict:
    curves = activation_curves()
    x = curves.pop("x")
    names = {name: f"{name} (this model)" if name == used else name for name in curves}
    return {
        "x": _list(x),
        "curves": [{"name": names[name], "values": _list(values)} for name, values in curves.items()],
        "difference": _list(curves["gelu"] - curves["gelu_tanh"], 7),
    }
