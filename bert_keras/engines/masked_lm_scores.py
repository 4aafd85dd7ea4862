"""Score a masked LM on held-out text: on records with fixed masks, or on texts by pseudo-perplexity."""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_keras.architectures.losses import cross_entropy, is_top
from bert_keras.checkpoints.vocabulary_file import check_tokenizer_size
from bert_keras.engines.mask_filling import get_masked_lm
from bert_keras.errors import InputError
from bert_keras.heads.fill_mask.mask_checks import check_records
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.text.graph.text_batches import without_autograph
from bert_keras.pipelines.text.token_arrays import as_text_array
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_TOKENS_PER_BATCH = 4096  # as in `inference`; the logits of 409 masks over 30,522 tokens take 50 MB
_OUTPUTS = ("mlm", "next_sentence")
_MAX_LOSS = 700.0  # the exponential of a larger one overflows
FIXED_MASKS = {"masking": "static", "shuffle": False}  # the same batches of held-out records every time

_TEXT_SPEC = (
    {
        name: tf.TensorSpec([None, None], tf.int32)
        for name in ("token_ids", "padding_mask", "segment_ids", "mask_positions")
    },
    {"mask_ids": tf.TensorSpec([None, None], tf.int32), "mask_weights": tf.TensorSpec([None, None], tf.float32)},
)

Progress = Callable[[int, int | None], None]


def score_records(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    split: str = "held_out",
    limit: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Score a masked LM on records, with 15 % of the tokens masked, the same ones for every model.

    The masks depend only on the seed and the record. The scores are those of `pretrain`, except that they are means
    over all masked tokens, and not over batches.

    Args:
        model: a model with a masked-LM head, see `fill_mask`.
        tokenizer: the model's tokenizer.
        folder: a records folder made with this tokenizer.
        split: "held_out" or "train".
        limit: maximum number of sequences, from the beginning; None: all.
        batch_size: number of sequences per batch.
        seed: seed of the masks.
        progress: called with the number of sequences done, and with their total number.

    Returns:
        `mlm_loss`, `mlm_accuracy`, `perplexity` (the exponential of the loss), `sequences` and `masked_tokens`; with
        a next-sentence head and labels also `next_sentence_loss` and `next_sentence_accuracy`.

    Raises:
        InputError: the model has no such head, the records are of another tokenizer or too long, or the split is empty.

    Example:
        >>> model, tokenizer = bk.load("demo/pretrained"), bk.load_tokenizer("demo/pretrained")
        >>> scores = score_records(model, tokenizer, "demo/records", limit=8)
        >>> scores["perplexity"] > 1
        True
    """
    model = get_masked_lm(model)
    check_tokenizer_size(tokenizer, model.encoder.config)
    num_sequences = check_records(folder, split, model.encoder.config.max_sequence_length)
    options = {"split": split, "batch_size": batch_size, "seed": seed, "drop_remainder": False}
    batches = make_pretraining_batches(folder, tokenizer, **options, **FIXED_MASKS)
    if limit is not None and limit < num_sequences:
        num_sequences = limit
        batches = batches.unbatch().take(limit).batch(batch_size)
    sums, num_done = {}, 0
    measure = _compile(lambda batch: _compute_sums(model, *batch), batches.element_spec)
    for batch in batches:
        for name, value in measure(batch).items():
            sums[name] = sums.get(name, 0.0) + float(value)
        num_done += len(batch[0]["token_ids"])
        if progress is not None:
            progress(num_done, num_sequences)
    return _compute_scores(sums, num_done)


def drop_sentence_objective(features: dict, labels: dict) -> tuple[dict, dict]:
    """Remove the features and labels of the next-sentence objective."""
    features = {name: value for name, value in features.items() if name != "pack_starts"}
    return features, {name: value for name, value in labels.items() if not name.startswith("next_sentence")}


def score_texts(
    model: keras.Model, tokenizer: BertTokenizer, texts: Sequence[str], *, progress: Progress | None = None
) -> dict[str, float]:
    """Score a masked LM on texts by pseudo-perplexity (Salazar et al. 2020, "Masked Language Model Scoring").

    Each token of a text is masked in turn, and the model predicts it. The loss is the mean negative log-likelihood over
    all tokens of all texts, and the pseudo-perplexity is its exponential. A text of n tokens takes n forward passes.
    Texts longer than the model accepts are split into parts, which are scored separately.

    Args:
        model: a model with a masked-LM head, see `fill_mask`.
        tokenizer: the model's tokenizer.
        texts: the texts; those without tokens are ignored.
        progress: called with the number of tokens done, and with their total number.

    Returns:
        `loss`, `pseudo_perplexity`, `accuracy` (the share of tokens that are the model's first prediction), `texts`,
        `tokens` and `unknown_rate`, the share of [UNK] tokens.

    Raises:
        InputError: the model has no such head, or no text has a token.

    Example:
        >>> model, tokenizer = bk.load("demo/pretrained"), bk.load_tokenizer("demo/pretrained")
        >>> score_texts(model, tokenizer, ["The with statement wraps a block."])["pseudo_perplexity"] > 1
        True
    """
    model = get_masked_lm(model)
    check_tokenizer_size(tokenizer, model.encoder.config)
    token_ids = [ids for ids in tokenizer.tokenize(as_text_array(texts)).to_list() if ids]
    if not token_ids:
        raise InputError(f"none of {len(texts):,} texts has a token; expected one or more: score other texts")
    longest = model.encoder.config.max_sequence_length - 2  # [CLS] and [SEP]
    parts = [ids[start : start + longest] for ids in token_ids for start in range(0, len(ids), longest)]
    num_tokens, num_done, loss, num_correct = sum(map(len, parts)), 0, 0.0, 0.0
    measure = _compile(lambda batch: _compute_sums(model, *batch), _TEXT_SPEC)
    for batch in _mask_one_by_one(parts, tokenizer):
        sums = measure(batch)
        loss, num_correct = loss + float(sums["mlm_loss"]), num_correct + float(sums["mlm_correct"])
        num_done += len(batch[0]["token_ids"])
        if progress is not None:
            progress(num_done, num_tokens)
    unknown = sum(ids.count(tokenizer.unk_id) for ids in parts)
    return {
        "loss": loss / num_tokens,
        "pseudo_perplexity": _compute_perplexity(loss / num_tokens),
        "accuracy": num_correct / num_tokens,
        "texts": len(token_ids),
        "tokens": num_tokens,
        "unknown_rate": unknown / num_tokens,
    }


def _compile(function: Callable, spec: object) -> Callable:
    """Return a function of batches as a graph on TensorFlow, and with NumPy inputs on other backends."""
    if keras.backend.backend() == "tensorflow":
        return tf.function(without_autograph(function), input_signature=[spec])
    return lambda batch: function(tf.nest.map_structure(np.asarray, batch))


def _compute_sums(model: keras.Model, features: dict, labels: dict) -> dict:
    """Return the sums of losses, of correct predictions and of weights over a batch."""
    if not hasattr(model, "next_sentence"):
        features, labels = drop_sentence_objective(features, labels)
    outputs = model(features, training=False)
    truth = {"mlm": (labels["mask_ids"], labels["mask_weights"])}
    if "next_sentence_labels" in labels:
        ids = labels["next_sentence_labels"]
        truth["next_sentence"] = ids, labels.get("next_sentence_weights", ops.ones(ops.shape(ids), "float32"))
    sums = {}
    for name, (ids, weights) in truth.items():
        logits = outputs[f"{name}_logits"]
        sums[f"{name}_loss"] = ops.sum(cross_entropy(logits, ids) * weights)
        sums[f"{name}_correct"] = ops.sum(is_top(ids, logits) * weights)
        sums[f"{name}_weight"] = ops.sum(weights)
    return sums


def _compute_scores(sums: dict[str, float], num_sequences: int) -> dict[str, float]:
    scores = {}
    for name in _OUTPUTS:
        if weight := sums.get(f"{name}_weight"):
            scores[f"{name}_loss"] = sums[f"{name}_loss"] / weight
            scores[f"{name}_accuracy"] = sums[f"{name}_correct"] / weight
    perplexity = _compute_perplexity(scores["mlm_loss"])
    return {**scores, "perplexity": perplexity, "sequences": num_sequences, "masked_tokens": round(sums["mlm_weight"])}


def _compute_perplexity(loss: float) -> float:
    if not loss < _MAX_LOSS:
        raise InputError(f"the model has a loss of {loss:g} per token: its weights are damaged, load another one")
    return math.exp(loss)


def _mask_one_by_one(parts: list[list[int]], tokenizer: BertTokenizer) -> Iterator[tuple[dict, dict]]:
    """Yield batches in which each token of each part is masked once, the longest parts first."""
    places = ((ids, place) for ids in sorted(parts, key=len, reverse=True) for place in range(len(ids)))
    first = next(places, None)
    while first is not None:
        length = len(first[0]) + 2
        batch = [first, *itertools.islice(places, max(1, _TOKENS_PER_BATCH // length) - 1)]
        yield _make_batch(batch, length, tokenizer)
        first = next(places, None)


def _make_batch(places: list[tuple[list[int], int]], length: int, tokenizer: BertTokenizer) -> tuple[dict, dict]:
    token_ids = np.full((len(places), length), tokenizer.pad_id, np.int32)
    padding_mask = np.zeros_like(token_ids)
    for row, (ids, place) in enumerate(places):
        token_ids[row, : len(ids) + 2] = [tokenizer.cls_id, *ids, tokenizer.sep_id]
        token_ids[row, place + 1] = tokenizer.mask_id
        padding_mask[row, : len(ids) + 2] = 1
    positions = np.array([[place + 1] for _, place in places], np.int32)
    features = {"token_ids": token_ids, "padding_mask": padding_mask, "segment_ids": np.zeros_like(token_ids)}
    labels = {
        "mask_ids": np.array([[ids[place]] for ids, place in places], np.int32),
        "mask_weights": np.ones((len(places), 1), np.float32),
    }
    return {**features, "mask_positions": positions}, labels
