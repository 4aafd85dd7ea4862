"""One text, or a pair of texts, as the row of tokens that a model reads."""

import dataclasses

import numpy as np

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_NAMES = ("the text", "the second text")


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """`[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, S tokens, none of them padding.

    Attributes:
        texts: one text or two.
        tokens: the S tokens, as the vocabulary has them ("##s" continues a word).
        token_ids: `(S,)` int32.
        segment_ids: `(S,)` int32, 0 = the first text, 1 = the second.
        starts, ends: `(S,)` int32, the characters of its own text that a token was made of; -1 for [CLS] and [SEP].
        word_ids: `(S,)` int32, which word of its own text a token belongs to; -1 for [CLS] and [SEP].
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
        """Returns what a model reads, `(1, S)` each; `padding_mask`: 1 = real token, 0 = padding."""
        of_row = {"token_ids": self.token_ids, "segment_ids": self.segment_ids}
        return {name: values[np.newaxis] for name, values in of_row.items()} | {
            "padding_mask": np.ones((1, len(self)), np.int32)
        }


def row_of(tokenizer: BertTokenizer, config: BertConfig, *texts: str, keep_special_tokens: bool = False) -> Row:
    """Tokenizes a text or a pair of texts, uncut.

    Args:
        tokenizer: the model's.
        config: the model's.
        *texts: one text or two.
        keep_special_tokens: whether "[MASK]" or another special token, written in a text, is that token.

    Raises:
        InputError: the tokenizer is another model's, a text has no tokens, or the model cannot read so many tokens or
            a second text.
    """
    _check_tokenizer(tokenizer, config)
    tokenized = tokenizer.tokenize_with_offsets(list(texts), keep_special_tokens=keep_special_tokens)
    columns = [[np.array(of_text, np.int32) for of_text in ragged.to_list()] for ragged in tokenized]
    _check_texts(columns[0], config)
    token_ids, starts, ends, word_ids = (
        _joined(column, first, last)
        for column, first, last in zip(
            columns, (tokenizer.cls_id, -1, -1, -1), (tokenizer.sep_id, -1, -1, -1), strict=True
        )
    )
    lengths = [len(tokens) + (2 if place == 0 else 1) for place, tokens in enumerate(columns[0])]
    segment_ids = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    tokens = tuple(tokenizer.vocabulary[token_id] for token_id in token_ids)
    return Row(tuple(texts), tokens, token_ids, segment_ids, starts, ends, word_ids)


def _joined(column: list[np.ndarray], first: int, last: int) -> np.ndarray:
    """Returns the values of the tokens of all texts, `first` for [CLS] and `last` for each [SEP]."""
    parts = [[first]]
    for values in column:
        parts += [values, [last]]
    return np.concatenate(parts).astype(np.int32)


def _check_tokenizer(tokenizer: BertTokenizer, config: BertConfig) -> None:
    if tokenizer.vocabulary_size > config.vocabulary_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocabulary_size} tokens, the model {config.vocabulary_size} rows; expected "
            "the model's own tokenizer: load both from one folder"
        )


def _check_texts(token_ids: list[np.ndarray], config: BertConfig) -> None:
    for name, of_text in zip(_NAMES, token_ids, strict=False):
        if not len(of_text):
            raise InputError(f"{name} has no tokens; expected words: write some")
    if len(token_ids) > config.type_vocabulary_size:
        raise InputError("the model knows no second text (type_vocabulary_size is 1): leave the second text out")
    length = 1 + sum(len(of_text) + 1 for of_text in token_ids)
    if length > config.max_sequence_length:
        what = "the text has" if len(token_ids) == 1 else "the two texts have"
        raise InputError(
            f"{what} {length:,} tokens with [CLS] and [SEP]; the model reads {config.max_sequence_length:,} at most "
            "(max_sequence_length): cut the text"
        )
