"""`fill_mask`: what a model would write in the place of [MASK]."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from keras import ops

from bert_keras.checkpoints.finite_values import check_finite_outputs
from bert_keras.errors import InputError
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.batches.packing import pack_tokens
from bert_keras.pipelines.text.graph.text_batches import as_text_array
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.mask_checks import MASK, check_has_masked_lm, check_have_masks, check_top_k, describe_text

_BATCH_SIZE = 32  # texts; each mask takes a row of the vocabulary, 122 kB


@dataclasses.dataclass(frozen=True)
class Filling:
    """One proposal for one [MASK].

    Attributes:
        token: the token, as the vocabulary has it ("##s" continues a word).
        token_id: its id.
        probability: the model's, from 0 to 1, over the whole vocabulary.
        text: the text with the token in the place of this [MASK]; others stay.
    """

    token: str
    token_id: int
    probability: float
    text: str


def fill_mask(model, tokenizer: BertTokenizer, texts: Sequence[str], *, top_k: int = 5) -> list[list[list[Filling]]]:
    """Proposes tokens for every [MASK] of every text. Several masks of a text are filled independently.

    The probabilities are those of transformers' `pipeline("fill-mask")`.

    Args:
        model: a model with a masked-LM head: `BertMaskedLM`, `BertPretrainer`, or an `ElectraPretrainer` with its
            generator.
        tokenizer: the model's.
        texts: each with one [MASK] or more; the other special tokens may be written in it too.
        top_k: how many proposals, the likeliest first.

    Returns:
        For each text, for each of its masks in their order, `top_k` `Filling`s.

    Raises:
        InputError: the model has no masked-LM head or another vocabulary, a text has no [MASK] or is too long, or the
            model computes NaN or infinity.

    Example:
        >>> model, tokenizer = bk.load("folder"), bk.load_tokenizer("folder")
        >>> bk.fill_mask(model, tokenizer, ["Paris is the [MASK] of France."])[0][0][0].token
        'capital'
    """
    masked_lm = get_masked_lm(model)
    config = masked_lm.encoder.config
    check_tokenizer_size(masked_lm, tokenizer)
    check_top_k(top_k, tokenizer.vocabulary_size)
    texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
    check_have_masks(texts)
    tokens = tokenizer.tokenize_with_offsets(texts, keep_special_tokens=True)
    masks = [np.flatnonzero(np.equal(ids, tokenizer.mask_id)) for ids in tokens.token_ids.to_list()]
    _check_lengths(texts, tokens.token_ids.row_lengths().numpy() + 2, config.max_sequence_length)
    ranges = list(zip(tokens.starts.to_list(), tokens.ends.to_list(), strict=True))
    filled = []
    for start in range(0, len(texts), _BATCH_SIZE):
        batch = slice(start, start + _BATCH_SIZE)
        best = _best(masked_lm, tokenizer, tokens.token_ids[batch], masks[batch], top_k)
        for text, places, (starts, ends), of_text in zip(texts[batch], masks[batch], ranges[batch], best, strict=True):
            filled.append(
                [
                    [_filling(tokenizer, text, starts[place], ends[place], *proposal) for proposal in of_mask]
                    for place, of_mask in zip(places, of_text, strict=True)
                ]
            )
    return filled


def check_tokenizer_size(model: MaskedLMModel, tokenizer: BertTokenizer) -> None:
    """Raise `InputError` if a tokenizer has more tokens than a model has rows; a padded model has more."""
    size = model.encoder.config.vocabulary_size
    if tokenizer.vocabulary_size > size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocabulary_size} tokens, the model {size} rows; expected the model's own "
            "tokenizer: load both from one folder"
        )


def get_masked_lm(model) -> MaskedLMModel:
    """Return the model that has the masked-LM head: this one, or its generator.

    Raises:
        InputError: there is none; the message says which head there is.
    """
    generator = getattr(model, "generator", None)
    if generator is None and isinstance(model, MaskedLMModel):
        return model
    check_has_masked_lm(type(model).__name__, has_generator=generator is not None)
    return generator


def _check_lengths(texts: list[str], lengths: np.ndarray, max_sequence_length: int) -> None:
    for number, (text, length) in enumerate(zip(texts, lengths, strict=True), 1):
        if length > max_sequence_length:
            raise InputError(
                f"{describe_text(number, text)} has {length} tokens with [CLS] and [SEP]; the model reads "
                f"{max_sequence_length} at most: cut the text around its {MASK}"
            )


def _best(masked_lm, tokenizer: BertTokenizer, token_ids, masks: list[np.ndarray], top_k: int):
    """Returns for each text and each of its masks the likeliest (id, probability) pairs."""
    features = pack_tokens(
        token_ids,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        max_sequence_length=masked_lm.encoder.config.max_sequence_length,
    )
    positions = np.zeros((len(masks), max(map(len, masks))), np.int32)
    for row, places in zip(positions, masks, strict=True):
        row[: len(places)] = places + 1  # [CLS] comes first
    inputs = {**{name: value.numpy() for name, value in features.items()}, "mask_positions": positions}
    probabilities = ops.softmax(masked_lm(inputs, training=False)["mlm_logits"], axis=-1)
    check_finite_outputs(masked_lm, ops.convert_to_numpy(probabilities))
    probabilities = probabilities[..., : tokenizer.vocabulary_size]  # rows of a padded table are no tokens
    values, ids = (ops.convert_to_numpy(part).tolist() for part in ops.top_k(probabilities, top_k))  # (B, M, k)
    return [
        [list(zip(ids[row][slot], values[row][slot], strict=True)) for slot in range(len(places))]
        for row, places in enumerate(masks)
    ]


def _filling(tokenizer: BertTokenizer, text: str, start: int, end: int, token_id: int, probability: float) -> Filling:
    token = tokenizer.vocabulary[token_id]
    before = text[:start].rstrip() if token.startswith("##") else text[:start]
    return Filling(token, token_id, probability, before + token.removeprefix("##") + text[end:])
