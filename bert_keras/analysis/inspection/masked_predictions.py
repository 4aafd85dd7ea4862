"""What a masked-LM head would write in the place of a word."""

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from bert_keras.analysis.inspection.input_sequence import Row
from bert_keras.errors import InputError
from bert_keras.modeling import ElectraPretrainer
from bert_keras.modeling.masked_lm import MaskedLMModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer

MOST_WORDS = 64  # masked in turn, each a row of its own
_TOKENS_A_BATCH = 4096


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
    if not 1 <= top_k <= len(vocabulary):
        raise InputError(f"top_k is {top_k}; expected 1 to {len(vocabulary)}, the tokens of the vocabulary")
    written = np.flatnonzero(row.token_ids == tokenizer.mask_id)
    slots = [written] if len(written) else words_of(row, tokenizer)[:MOST_WORDS]
    found = []
    for places, probabilities in _runs(model, tokenizer, row, slots):
        for place, of_token in zip(places, probabilities, strict=True):
            best = np.argsort(-of_token[: len(vocabulary)], kind="stable")[:top_k]  # a padded table has more rows
            own = None if len(written) else float(of_token[row.token_ids[place]])
            proposals = tuple((vocabulary[token_id], float(of_token[token_id])) for token_id in best)
            found.append(Guess(int(place), row.tokens[place], own, proposals))
    return tuple(found)


def words_of(row: Row, tokenizer: BertTokenizer) -> list[np.ndarray]:
    """Returns the positions of the tokens of each word; special tokens are no words."""
    no_words = [token_id for token_id in tokenizer.special_ids if token_id != tokenizer.unk_id]
    is_word = (row.word_ids >= 0) & ~np.isin(row.token_ids, no_words)
    keys = np.where(is_word, row.segment_ids * len(row) + row.word_ids, -1)
    return [np.flatnonzero(keys == key) for key in dict.fromkeys(keys[is_word].tolist())]


def _runs(
    model: MaskedLMModel, tokenizer: BertTokenizer, row: Row, slots: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the masked positions `(M,)` of each masked row and the probabilities there `(M, V)`."""
    rows_a_batch = max(1, _TOKENS_A_BATCH // len(row))
    for begin in range(0, len(slots), rows_a_batch):
        of_batch = slots[begin : begin + rows_a_batch]
        features = {name: np.repeat(values, len(of_batch), axis=0) for name, values in row.features().items()}
        positions = np.zeros((len(of_batch), max(map(len, of_batch))), np.int32)
        for masked_row, of_row, places in zip(features["token_ids"], positions, of_batch, strict=True):
            masked_row[places] = tokenizer.mask_id
            of_row[: len(places)] = places
        logits = model({**features, "mask_positions": positions}, training=False)["mlm_logits"]
        probabilities = ops.convert_to_numpy(ops.softmax(logits, axis=-1))
        for places, of_row in zip(of_batch, probabilities, strict=True):
            yield places, of_row[: len(places)]
