"""`bk.fill_mask`: predict the tokens at each [MASK] of a text."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

from bert_keras.checkpoints.finite_values import check_finite_outputs
from bert_keras.checkpoints.tokenizer_match import check_tokenizer_size
from bert_keras.errors import InputError
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.batches.packing import pack_tokens
from bert_keras.pipelines.text.token_arrays import as_text_array
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.mask_checks import MASK, check_has_masked_lm, check_have_masks, check_top_k, describe_text

_BATCH_SIZE = 32  # texts; the logits of one mask take 122 kB with BERT's vocabulary


@dataclasses.dataclass(frozen=True)
class Filling:
    """One prediction for one [MASK].

    Attributes:
        token: the token, as in the vocabulary ("##s" continues a word).
        token_id: its id.
        probability: its probability over the whole vocabulary, from 0 to 1.
        text: the text with the token in place of this [MASK]; other masks remain.
    """

    token: str
    token_id: int
    probability: float
    text: str


def fill_mask(
    model: keras.Model, tokenizer: BertTokenizer, texts: Sequence[str], *, top_k: int = 5
) -> list[list[list[Filling]]]:
    """Predict the tokens at every [MASK] of every text, independently of each other.

    The probabilities are those of transformers' `pipeline("fill-mask")`.

    Args:
        model: a model with a masked-LM head: `BertMaskedLM`, `BertPretrainer`, or an `ElectraPretrainer` with its
            generator.
        tokenizer: the model's tokenizer.
        texts: texts with one [MASK] or more; other special tokens are recognized too.
        top_k: number of predictions per mask, the most probable first.

    Returns:
        `top_k` fillings for each mask of each text, in their order.

    Raises:
        InputError: the model has no masked-LM head or fewer tokens than the tokenizer, `top_k` is out of range, a text
            has no [MASK] or is too long, or the model outputs NaN or infinity.

    Example:
        >>> model, tokenizer = bk.load("demo/pretrained"), bk.load_tokenizer("demo/pretrained")
        >>> [[fillings]] = bk.fill_mask(model, tokenizer, ["The [MASK] statement wraps a block."], top_k=3)
        >>> len(fillings), fillings[0].text
        (3, 'The... statement wraps a block.')
    """
    masked_lm = get_masked_lm(model)
    check_tokenizer_size(tokenizer, masked_lm.encoder.config)
    check_top_k(top_k, tokenizer.vocabulary_size)
    texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
    check_have_masks(texts)
    tokens = tokenizer.tokenize_with_offsets(texts, keep_special_tokens=True)
    masks = [np.flatnonzero(np.equal(ids, tokenizer.mask_id)) for ids in tokens.token_ids.to_list()]
    max_sequence_length = masked_lm.encoder.config.max_sequence_length
    _check_lengths(texts, tokens.token_ids.row_lengths().numpy() + 2, max_sequence_length)
    predictions = []
    for start in range(0, len(texts), _BATCH_SIZE):
        batch = slice(start, start + _BATCH_SIZE)
        features = pack_tokens(
            tokens.token_ids[batch],
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            max_sequence_length=max_sequence_length,
        )
        features = {name: value.numpy() for name, value in features.items()}
        positions = [places + 1 for places in masks[batch]]  # [CLS] comes first
        for probabilities in predict_tokens(masked_lm, tokenizer, features, positions):
            predictions.append(find_top_tokens(probabilities, top_k))
    starts, ends = tokens.starts.to_list(), tokens.ends.to_list()
    return [
        [
            [_make_filling(tokenizer, text, starts[index][place], ends[index][place], *token) for token in best]
            for place, best in zip(masks[index], predictions[index], strict=True)
        ]
        for index, text in enumerate(texts)
    ]


def predict_tokens(
    model: MaskedLMModel, tokenizer: BertTokenizer, features: Mapping[str, np.ndarray], positions: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return the token probabilities at the masked positions of each sequence.

    Args:
        model: a model with a masked-LM head.
        tokenizer: its tokenizer.
        features: the inputs of the encoder, `(B, S)` each.
        positions: B arrays of masked positions, `(M,)` each, of any length.

    Returns:
        B arrays `(M, V)`, where V is the number of tokens; the padding of a larger embedding table is removed.

    Raises:
        InputError: the model outputs NaN or infinity.
    """
    mask_positions = np.zeros((len(positions), max(map(len, positions))), np.int32)
    for padded, places in zip(mask_positions, positions, strict=True):
        padded[: len(places)] = places
    outputs = model({**features, "mask_positions": mask_positions}, training=False)
    probabilities = ops.convert_to_numpy(ops.softmax(outputs["mlm_logits"], axis=-1))
    check_finite_outputs(model, probabilities)
    return [
        sequence[: len(places), : tokenizer.vocabulary_size]
        for sequence, places in zip(probabilities, positions, strict=True)
    ]


def find_top_tokens(probabilities: np.ndarray, top_k: int) -> list[list[tuple[int, float]]]:
    """Return the `top_k` most probable tokens as (id, probability), for each row of probabilities `(M, V)`."""
    values, ids = (ops.convert_to_numpy(part).tolist() for part in ops.top_k(probabilities, top_k))
    return [list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True)]


def get_masked_lm(model: keras.Model) -> MaskedLMModel:
    """Return the model with the masked-LM head: this one, or its generator.

    Raises:
        InputError: there is no such head; the message names the model's head.
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
                f"{describe_text(number, text)} has {length} tokens with [CLS] and [SEP]; the model accepts up to "
                f"{max_sequence_length}: cut the text around its {MASK}"
            )


def _make_filling(
    tokenizer: BertTokenizer, text: str, start: int, end: int, token_id: int, probability: float
) -> Filling:
    token = tokenizer.vocabulary[token_id]
    before = text[:start].rstrip() if token.startswith("##") else text[:start]
    return Filling(token, token_id, probability, before + token.removeprefix("##") + text[end:])
