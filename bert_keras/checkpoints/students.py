"""Checkpoints of students: a part of a teacher's layers, or a new encoder that starts from the teacher's embeddings.

As `trim_checkpoint` does for tokens, both describe the new checkpoint without reading a weight.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

_BLOCK = re.compile(r"^encoder\.blocks\.(\d+)\.")
_TABLES = tuple(f"encoder.embeddings.{name}.embeddings" for name in ("token", "position", "segment"))
_MAX_DEVIATIONS = 2.0  # of a new weight, as in BERT's truncated normal distribution


def choose_layers(num_layers: int, num_teacher_layers: int) -> list[int]:
    """Return the layers to keep, from 0: evenly spaced, with the first and the last.

    Sanh et al. (2019) start DistilBERT from layers 0, 2, 4, 7, 9 and 11 of BERT's 12, and this is the same rule. A
    single layer is the first.

    Raises:
        InputError: the teacher has fewer layers.

    Example:
        >>> from bert_keras.checkpoints.students import choose_layers
        >>> choose_layers(3, 6), choose_layers(6, 12)
        ([0, 3, 5], [0, 2, 4, 7, 9, 11])
    """
    if num_layers > num_teacher_layers:
        raise InputError(
            f"num_layers is {num_layers} and the teacher has {num_teacher_layers} layers; expected at most that many: "
            "choose a smaller number, or a new student with a preset"
        )
    gaps = max(1, num_layers - 1)
    return [(2 * layer * (num_teacher_layers - 1) + gaps) // (2 * gaps) for layer in range(num_layers)]


def cut_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> Checkpoint:
    """Return a checkpoint with some layers of another; embeddings, pooler and head stay.

    Args:
        checkpoint: the teacher.
        layers: the indices of the layers to keep, from 0.
    """
    places = {layer: place for place, layer in enumerate(layers)}
    weights = {}
    for name, weight in checkpoint.weights.items():
        if (block := _BLOCK.match(name)) is None:
            weights[name] = weight
        elif (layer := int(block[1])) in places:
            weights[f"encoder.blocks.{places[layer]}.{name[block.end() :]}"] = weight
    return dataclasses.replace(
        checkpoint, config=dataclasses.replace(checkpoint.config, num_layers=len(layers)), weights=weights
    )


def resize(checkpoint: Checkpoint, config: BertConfig, *, seed: int = 0) -> Checkpoint:
    """Return a checkpoint with a new encoder that starts from the embeddings of another.

    If the widths are equal, embeddings, pooler and head are copied. Otherwise the embedding tables are projected on the
    principal components of the token embeddings, which keeps as much of their variance as a linear map can; the head
    is left out. All other weights are new: normal with `initializer_range`, cut at two deviations.

    Args:
        checkpoint: the teacher.
        config: the sizes of the new encoder, with the vocabulary of the teacher.
        seed: seed of the new weights.
    """
    names = list_weights("BertEncoder", config, pooler=checkpoint.has_pooler)
    is_same_width = config.embedding_dim == checkpoint.config.embedding_dim
    kept = {}
    if is_same_width and config.hidden_dim == checkpoint.config.hidden_dim:
        kept = {name: weight for name, weight in checkpoint.weights.items() if _BLOCK.match(name) is None}
    elif is_same_width:
        kept = {name: checkpoint.weights[name] for name in checkpoint.weights if name.startswith("encoder.embeddings.")}
    else:
        tokens, width = checkpoint.weights[_TABLES[0]], config.embedding_dim
        components = functools.cache(lambda: compute_principal_components(tokens.read(), width))
        for name in _TABLES:
            if name in checkpoint.weights:
                kept[name] = _project(checkpoint.weights[name], components, width)
    weights = dict(kept)
    for index, name in enumerate(names):
        if name.ours not in weights:
            weights[name.ours] = _make_new_weight(
                name.ours, name.shape(config), config.initializer_range, [seed, index]
            )
    return dataclasses.replace(checkpoint, config=config, weights=weights)


def compute_principal_components(values: np.ndarray, num_components: int, *, centred: bool = True) -> np.ndarray:
    """Return the orthonormal directions of the largest variance `(D, num_components)` of values `(N, D)`.

    The largest entry of each direction is positive.

    Args:
        values: the values.
        num_components: the number of directions; those above D are zeros.
        centred: whether the mean is subtracted first. Without it, dot products are kept as well as possible.
    """
    values = values.astype(np.float64)
    values = values - values.mean(axis=0) if centred else values
    variances, directions = np.linalg.eigh(values.T @ values)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
    directions = directions * np.where(largest < 0, -1.0, 1.0)  # `eigh` chooses signs that depend on the machine
    order = np.argsort(-variances, kind="stable")[:num_components]
    return np.pad(directions[:, order], [(0, 0), (0, num_components - len(order))])


def _project(table: StoredWeight, components: Callable[[], np.ndarray], width: int) -> StoredWeight:
    def read() -> np.ndarray:
        return (table.read().astype(np.float64) @ components()).astype(np.float32)

    return dataclasses.replace(table, shape=(table.shape[0], width), read=read, dtype="float32")


def _make_new_weight(name: str, shape: tuple[int, ...], deviation: float, seed: Sequence[int]) -> StoredWeight:
    """Return a new weight: a norm's gamma is 1, its beta and a bias are 0, others are random."""

    def read() -> np.ndarray:
        if name.endswith((".bias", ".beta")):
            return np.zeros(shape, np.float32)
        if name.endswith(".gamma"):
            return np.ones(shape, np.float32)
        generator = np.random.default_rng(seed)
        values = generator.normal(size=shape)
        while (is_far := np.abs(values) > _MAX_DEVIATIONS).any():
            values[is_far] = generator.normal(size=np.count_nonzero(is_far))
        return (deviation * values).astype(np.float32)

    return StoredWeight(name, shape, read)
