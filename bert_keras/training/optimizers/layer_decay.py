"""Layer-wise training: frozen blocks, and learning rates of the head and of each block."""

import re

import keras

from bert_keras.errors import InputError


def freeze(model: keras.Model, num_blocks: int) -> None:
    """Freeze the embeddings and the first `num_blocks` blocks: `fit` does not change their weights.

    Raises:
        InputError: the model has fewer blocks.
    """
    encoder = model.encoder
    if num_blocks > len(encoder.blocks):
        raise InputError(
            f"{num_blocks} blocks cannot be frozen, because the model has {len(encoder.blocks)}; expected at most that "
            "many: freeze fewer"
        )
    for layer in (encoder.embeddings, encoder.embedding_projection, *encoder.blocks[:num_blocks]):
        if layer is not None:
            layer.trainable = False


def compute_rate_factors(model: keras.Model, layer_decay: float, head_rate_factor: float = 1.0) -> list[float] | None:
    """Compute the factor of each trainable variable's learning rate; None if all are 1.

    The factor is `layer_decay` to the power of the depth: 0 for the head and the pooler, 2 for the last block, one more
    for each block below it, and one more for the embeddings, as in ELECTRA's fine-tuning code (`_get_layer_lrs`). That
    of the head, which is every variable outside the encoder, is `head_rate_factor`.
    """
    if layer_decay == head_rate_factor == 1:
        return None
    num_blocks = len(model.encoder.blocks)
    encoder = {id(variable) for variable in model.encoder.variables}
    return [
        layer_decay ** _get_depth(variable.path, num_blocks) * (1 if id(variable) in encoder else head_rate_factor)
        for variable in model.trainable_variables
    ]


def _get_depth(path: str, num_blocks: int) -> int:
    if block := re.search(r"(?:^|/)block_(\d+)/", path):
        return num_blocks + 1 - int(block[1])
    return num_blocks + 2 if re.search(r"(?:^|/)(embeddings|embedding_projection)/", path) else 0
