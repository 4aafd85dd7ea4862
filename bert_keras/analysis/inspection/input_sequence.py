"""`InputSequence`: one text, or a pair of texts, as the sequence of tokens that a model receives."""

import dataclasses

import numpy as np

from bert_keras.checkpoints.tokenizer_match import check_tokenizer_size
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_NAMES = ("the text", "the second text")


@dataclasses.dataclass(frozen=True, eq=False)
class InputSequence:
    """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`: S tokens, without padding.

    Attributes:
        texts: one text or two.
        tokens: the S tokens, as in the vocabulary ("##s" continues a word).
        token_ids: `(S,)` int32.
        segment_ids: `(S,)` int32, 0 = first text, 1 = second text.
        starts, ends: `(S,)` int32, the characters of a token in its text, `text[start:end]`; -1 for [CLS] and [SEP].
        word_ids: `(S,)` int32, index of a token's word in its text; -1 for [CLS] and [SEP].
    """

    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    token_ids: np.ndarray
    segment_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    word_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def features(self) -> dict[str, np.ndarray]:
        """Return the inputs of a model, `(1, S)` each; `padding_mask`: 1 = real token, 0 = padding."""
        return {
            "token_ids": self.token_ids[np.newaxis],
            "segment_ids": self.segment_ids[np.newaxis],
            "padding_mask": np.ones((1, len(self)), np.int32),
        }


def make_input_sequence(
    tokenizer: BertTokenizer, config: BertConfig, *texts: str, keep_special_tokens: bool = False
) -> InputSequence:
    """Tokenize a text or a pair of texts without truncation.

    Args:
        tokenizer: tokenizer of the model.
        config: configuration of the model's encoder.
        *texts: one text or two.
        keep_special_tokens: whether "[MASK]" and other special tokens in a text become these tokens.

    Raises:
        InputError: the tokenizer belongs to another model, a text has no tokens, or the model does not accept a
            sequence of this length or a second text.
    """
    check_tokenizer_size(tokenizer, config)
    tokenized = tokenizer.tokenize_with_offsets(list(texts), keep_special_tokens=keep_special_tokens)
    columns = [[np.array(values, np.int32) for values in ragged.to_list()] for ragged in tokenized]
    _check_texts(columns[0], config)
    token_ids, starts, ends, word_ids = (
        _join(column, at_cls, at_sep)
        for column, at_cls, at_sep in zip(
            columns, (tokenizer.cls_id, -1, -1, -1), (tokenizer.sep_id, -1, -1, -1), strict=True
        )
    )
    lengths = [len(token_ids) + (2 if index == 0 else 1) for index, token_ids in enumerate(columns[0])]
    segment_ids = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    tokens = tuple(tokenizer.vocabulary[token_id] for token_id in token_ids)
    return InputSequence(tuple(texts), tokens, token_ids, segment_ids, starts, ends, word_ids)


def _join(column: list[np.ndarray], at_cls: int, at_sep: int) -> np.ndarray:
    """Join the values of all texts, with one value for [CLS] and one for each [SEP]."""
    parts = [[at_cls]]
    for values in column:
        parts += [values, [at_sep]]
    return np.concatenate(parts).astype(np.int32)


def _check_texts(token_ids: list[np.ndarray], config: BertConfig) -> None:
    for name, ids in zip(_NAMES, token_ids, strict=False):
        if not len(ids):
            raise InputError(f"{name} has no tokens; expected at least one word: add some text")
    if len(token_ids) > config.type_vocabulary_size:
        raise InputError(
            "two texts were given, but the model accepts only one (type_vocabulary_size is 1): leave the second out"
        )
    length = 1 + sum(len(ids) + 1 for ids in token_ids)
    if length > config.max_sequence_length:
        subject = "the text has" if len(token_ids) == 1 else "the two texts have"
        raise InputError(
            f"{subject} {length:,} tokens with [CLS] and [SEP]; the model accepts at most "
            f"{config.max_sequence_length:,} (max_sequence_length): shorten the text"
        )
