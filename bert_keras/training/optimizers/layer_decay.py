"""Which part of a model learns how fast: frozen blocks, and rates that fall from the head down."""

import re

import keras

from bert_keras.errors import InputError


def freeze(model: keras.Model, num_blocks: int) -> None:
    """Keeps the embeddings, and so many blocks above them, as they are in training.

    Raises:
        InputError: the model has fewer blocks.
    """
    encoder = model.encoder
    if num_blocks > len(encoder.blocks):
        raise InputError(
            f"{num_blocks} blocks are to be frozen; expected at most {len(encoder.blocks)}, which there are: "
            "freeze fewer"
        )
    for layer in (encoder.embeddings, encoder.embedding_projection, *encoder.blocks[:num_blocks]):
        if layer is not None:
            layer.trainable = False


def rate_factors(model: keras.Model, layer_decay: float) -> list[float] | None:
    """Returns what the learning rate of each trainable variable is multiplied by; None if all are alike.

    The factor is `layer_decay` to the power of the depth: 0 for the head and the pooler, 2 for the last block, one more
    for each block below, and one more for the embeddings, as ELECTRA's finetuning code counts (`_get_layer_lrs`).
    """
    if layer_decay == 1:
        return None
    num_blocks = len(model.encoder.blocks)
    return [layer_decay ** _depth(variable.path, num_blocks) for variable in model.trainable_variables]


def _depth(path: str, num_blocks: int) -> int:
    if block := re.search(r"(?:^|/)block_(\d+)/", path):
        return num_blocks + 1 - int(block[1])
    return num_blocks + 2 if re.search(r"(?:^|/)(embeddings|embedding_projection)/", path) else 0
