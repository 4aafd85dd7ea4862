"""Predictions of the masked-LM head for masked tokens."""

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np

from bert_keras.analysis.inspection.input_sequence import InputSequence
from bert_keras.modeling import ElectraPretrainer
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.mask_checks import check_top_k
from bert_keras.tasks.mask_filling import predict_tokens
from bert_keras.tasks.mask_filling_task import find_top_tokens

MAX_WORDS = 64  # masked in turn, each in a sequence of its own
_TOKENS_PER_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class MaskedPrediction:
    """The prediction for one masked token.

    Attributes:
        position: position of the token in the sequence, from 0.
        token: the masked token, or "[MASK]" if the text itself has it.
        probability: probability of `token`; None if the text itself has [MASK].
        proposals: the most probable tokens with their probabilities over the whole vocabulary, best first.
    """

    position: int
    token: str
    probability: float | None
    proposals: tuple[tuple[str, float], ...]


def get_masked_lm(model: keras.Model) -> MaskedLMModel | None:
    """Return the model with the masked-LM head: the model itself, ELECTRA's generator, or None."""
    if isinstance(model, ElectraPretrainer):
        return model.generator
    return model if isinstance(model, MaskedLMModel) else None


def predict_masked_tokens(
    model: MaskedLMModel, tokenizer: BertTokenizer, sequence: InputSequence, *, top_k: int = 5
) -> tuple[MaskedPrediction, ...]:
    """Predict every [MASK] of a sequence; without one, mask each of the first 64 words in turn with all its tokens.

    The other words stay visible, as in Salazar et al. (2020), 2.

    Args:
        model: the result of `get_masked_lm`.
        tokenizer: tokenizer of the model.
        sequence: the sequence.
        top_k: number of proposals for each token.

    Raises:
        InputError: `top_k` is below 1 or above the vocabulary size.
    """
    vocabulary = tokenizer.vocabulary
    check_top_k(top_k, len(vocabulary))
    masks = np.flatnonzero(sequence.token_ids == tokenizer.mask_id)
    words = [masks] if len(masks) else find_words(sequence, tokenizer)[:MAX_WORDS]
    predictions = []
    for positions, probabilities in _predict(model, tokenizer, sequence, words):
        best = find_top_tokens(probabilities, top_k)
        for position, distribution, top_tokens in zip(positions, probabilities, best, strict=True):
            probability = None if len(masks) else float(distribution[sequence.token_ids[position]])
            proposals = tuple((vocabulary[token_id], share) for token_id, share in top_tokens)
            predictions.append(MaskedPrediction(int(position), sequence.tokens[position], probability, proposals))
    return tuple(predictions)


def find_words(sequence: InputSequence, tokenizer: BertTokenizer) -> list[np.ndarray]:
    """Return the positions of the tokens of each word, without special tokens."""
    special_ids = [token_id for token_id in tokenizer.special_ids if token_id != tokenizer.unk_id]
    is_word = (sequence.word_ids >= 0) & ~np.isin(sequence.token_ids, special_ids)
    keys = np.where(is_word, sequence.segment_ids * len(sequence) + sequence.word_ids, -1)
    return [np.flatnonzero(keys == key) for key in dict.fromkeys(keys[is_word].tolist())]


def _predict(
    model: MaskedLMModel, tokenizer: BertTokenizer, sequence: InputSequence, words: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the masked positions `(M,)` of each word and the probabilities at these positions `(M, V)`."""
    batch_size = max(1, _TOKENS_PER_BATCH // len(sequence))
    for start in range(0, len(words), batch_size):
        batch = words[start : start + batch_size]
        features = {name: np.repeat(values, len(batch), axis=0) for name, values in sequence.features().items()}
        for token_ids, positions in zip(features["token_ids"], batch, strict=True):
            token_ids[positions] = tokenizer.mask_id
        yield from zip(batch, predict_tokens(model, tokenizer, features, batch), strict=True)
