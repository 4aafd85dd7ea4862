"""What a masked-LM head would write in the place of a word."""

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np

from bert_keras.analysis.inspection.input_sequence import Row
from bert_keras.modeling import ElectraPretrainer
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.mask_checks import check_top_k
from bert_keras.tasks.mask_filling import find_top_tokens, predict_tokens

MOST_WORDS = 64  # masked in turn, each a row of its own
_TOKENS_PER_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class Guess:
    """What the model expects at one masked token.

    Attributes:
        position: of the token in the row, from 0.
        token: what stands there: "[MASK]", or the token that was masked.
        probability: of that token; None where the text itself has [MASK].
        proposals: the likeliest tokens with their probabilities over the whole vocabulary, best first.
    """

    position: int
    token: str
    probability: float | None
    proposals: tuple[tuple[str, float], ...]


def get_masked_lm(model: keras.Model) -> MaskedLMModel | None:
    """Returns the part of a model that has a masked-LM head; None: there is none."""
    if isinstance(model, ElectraPretrainer):
        return model.generator
    return model if isinstance(model, MaskedLMModel) else None


def masked_guesses(model: MaskedLMModel, tokenizer: BertTokenizer, row: Row, *, top_k: int = 5) -> tuple[Guess, ...]:
    """Guesses every [MASK] of a row; of a row without one the words, each masked in turn with all its tokens.

    The first 64 words are masked so. The others stay readable, as in Salazar et al. (2020), 2.

    Args:
        model: what `get_masked_lm` gives.
        tokenizer: its tokenizer.
        row: the row.
        top_k: proposals for each token.

    Raises:
        InputError: `top_k` is below 1 or above the vocabulary's size.
    """
    vocabulary = tokenizer.vocabulary
    check_top_k(top_k, len(vocabulary))
    written = np.flatnonzero(row.token_ids == tokenizer.mask_id)
    masks = [written] if len(written) else words_of(row, tokenizer)[:MOST_WORDS]
    guesses = []
    for places, probabilities in _predict(model, tokenizer, row, masks):
        best = find_top_tokens(probabilities, top_k)
        for place, distribution, top_tokens in zip(places, probabilities, best, strict=True):
            own = None if len(written) else float(distribution[row.token_ids[place]])
            proposals = tuple((vocabulary[token_id], probability) for token_id, probability in top_tokens)
            guesses.append(Guess(int(place), row.tokens[place], own, proposals))
    return tuple(guesses)


def words_of(row: Row, tokenizer: BertTokenizer) -> list[np.ndarray]:
    """Returns the positions of the tokens of each word; special tokens are no words."""
    no_words = [token_id for token_id in tokenizer.special_ids if token_id != tokenizer.unk_id]
    is_word = (row.word_ids >= 0) & ~np.isin(row.token_ids, no_words)
    keys = np.where(is_word, row.segment_ids * len(row) + row.word_ids, -1)
    return [np.flatnonzero(keys == key) for key in dict.fromkeys(keys[is_word].tolist())]


def _predict(
    model: MaskedLMModel, tokenizer: BertTokenizer, row: Row, masks: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each set of masked positions `(M,)` with the probabilities there `(M, V)`."""
    batch_size = max(1, _TOKENS_PER_BATCH // len(row))
    for begin in range(0, len(masks), batch_size):
        batch = masks[begin : begin + batch_size]
        features = {name: np.repeat(values, len(batch), axis=0) for name, values in row.features().items()}
        for token_ids, places in zip(features["token_ids"], batch, strict=True):
            token_ids[places] = tokenizer.mask_id
        yield from zip(batch, predict_tokens(model, tokenizer, features, batch), strict=True)
