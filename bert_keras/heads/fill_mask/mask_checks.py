"""Checks for filling masks and for scoring a masked LM, without TensorFlow."""

import os
from collections.abc import Sequence

from bert_keras.checks import is_integer, quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head
from bert_keras.pipelines.records.manifest import read_manifest

MASK = "[MASK]"


def check_has_masked_lm(model: str, *, has_generator: bool) -> None:
    """Raise `InputError` unless a model has a masked-LM head, or a generator, which has one.

    Args:
        model: the name of its class.
        has_generator: whether it is an `ElectraPretrainer` with its generator.
    """
    if get_head(model).fills_masks or has_generator:
        return
    raise InputError(
        f"a {model} has {get_head(model).has}; expected a masked-LM head: load a folder of "
        "BertMaskedLM or BertPretrainer (BertForMaskedLM, BertForPreTraining, ElectraForMaskedLM)"
    )


def check_records(folder: str | os.PathLike, split: str, max_sequence_length: int) -> int:
    """Return the number of sequences in a split of a records folder.

    Raises:
        InputError: the folder has no records, the split is empty, or its sequences are too long for the model.
    """
    manifest = read_manifest(folder, checked_splits=())
    if manifest["max_sequence_length"] > max_sequence_length:
        raise InputError(
            f"{folder} has sequences of {manifest['max_sequence_length']} tokens, and the model accepts up "
            f"to {max_sequence_length}: make records with --max-sequence-length {max_sequence_length}"
        )
    if split not in manifest["splits"]:
        raise InputError(f"split is {split!r}; expected one of {', '.join(manifest['splits'])}")
    if not manifest["splits"][split]["num_records"]:
        raise InputError(
            f"{folder} has no records in the split {split}: make records with a higher --held-out-rate, or score the "
            "other split with --split train"
        )
    return manifest["splits"][split]["num_records"]


def check_top_k(top_k: int, vocabulary_size: int) -> None:
    """Raise `InputError` unless `top_k` is an integer from 1 to the size of the vocabulary."""
    if not is_integer(top_k, 1, vocabulary_size):
        raise InputError(
            f"top_k is {quote(top_k)}; expected an integer from 1 to {vocabulary_size:,}, the size of the vocabulary"
        )


def check_have_masks(texts: Sequence[str]) -> None:
    """Raise `InputError` unless there are texts, and each has a [MASK]."""
    if not texts:
        raise InputError(f"there are no texts to fill; expected at least one with a {MASK}")
    for number, text in enumerate(texts, 1):
        if MASK not in text:
            raise InputError(
                f"{describe_text(number, text)} has no {MASK}; expected at least one: write it in place of a word"
            )


def describe_text(number: int, text: str) -> str:
    """Return the number and the shortened content of a text, for messages."""
    return f"text {number} ({quote(text)})"
