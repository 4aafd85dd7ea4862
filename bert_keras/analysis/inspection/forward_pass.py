"""`look`: runs a model once on one row and keeps what it computes inside."""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from bert_keras.analysis.inspection.input_sequence import Row
from bert_keras.checkpoints.finite_values import check_finite_outputs

_ONE_ROW = ("hidden_states", "attention_scores")


@dataclasses.dataclass(frozen=True, eq=False)
class Look:
    """What a model computes on one row. L layers, N heads of width H, S tokens, D the width of the encoder.

    Attributes:
        row: the row of tokens.
        attention: `(L, N, S, S)` float32, softmaxed: row = who looks, column = at whom.
        queries, keys: `(L, N, S, H)` float32, unscaled: Q and K of Vaswani et al. (2017), 3.2.1.
        hidden_states: `(L + 1, S, D)` float32; 0 is what goes into the first block, l + 1 what block l gives.
        outputs: what else the model gives, one row of it, by name: `(S, ...)`, or `(...)` where it is of the text.
    """

    row: Row
    attention: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    hidden_states: np.ndarray
    outputs: Mapping[str, np.ndarray]

    def raw_scores(self, layer: int) -> np.ndarray:
        """Returns Q K^T of a layer, `(N, S, S)`: the scores before they are scaled."""
        return self.queries[layer] @ self.keys[layer].transpose(0, 2, 1)

    def scaled_scores(self, layer: int) -> np.ndarray:
        """Returns Q K^T / sqrt(H) of a layer, `(N, S, S)`: what the softmax over the keys is taken of."""
        return self.raw_scores(layer) / np.float32(np.sqrt(self.queries.shape[-1]))


def look(model: keras.Model, row: Row) -> Look:
    """Runs a model on a row, without dropout, and keeps its inside.

    Args:
        model: an encoder, or a model with one.
        row: of the model's own tokenizer.

    Raises:
        InputError: the model computes what is no finite number.
    """
    outputs = model(row.features(), training=False, return_hidden_states=True, return_attention_scores=True)
    outputs = keras.tree.map_structure(lambda tensor: ops.convert_to_numpy(tensor)[0], outputs)
    hidden_states = np.stack(outputs["hidden_states"]).astype(np.float32)
    rest = {name: value for name, value in outputs.items() if name not in _ONE_ROW}
    check_finite_outputs(model, hidden_states, *rest.values())
    encoder = getattr(model, "encoder", model)
    queries, keys = (
        np.stack(
            [
                _heads(getattr(block.attention, name), x, encoder.config.num_heads)
                for block, x in zip(encoder.blocks, hidden_states[:-1], strict=True)
            ]
        )
        for name in ("query", "key")
    )
    return Look(row, np.stack(outputs["attention_scores"]), queries, keys, hidden_states, rest)


def _heads(layer: keras.layers.Dense, x: np.ndarray, num_heads: int) -> np.ndarray:
    """Returns a projection of what goes into a block (S, D), head by head (N, S, H)."""
    projected = ops.convert_to_numpy(layer(ops.convert_to_tensor(x))).astype(np.float32)
    return projected.reshape(len(x), num_heads, -1).transpose(1, 0, 2)
