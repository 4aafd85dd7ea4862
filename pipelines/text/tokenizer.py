"""`BertTokenizer`: text to WordPiece ids and back, in the TensorFlow graph.

The same object tokenizes in training, in evaluation and in exported models, so that the three never differ.
"""

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.text.graph.rewriting import Rewriter, map_to_original
from bert_keras.pipelines.text.graph.text_batches import BatchRunner, as_text_tensor, without_autograph
from bert_keras.pipelines.text.portable_tokenizer import SpecifiedTokenizer, TokenizerSpec, write_settings
from bert_keras.pipelines.text.text_rules import UNICODE_VERSION, TextRules
from bert_keras.pipelines.text.token_arrays import TokenArrays
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings


class Tokens(NamedTuple):
    """The tokens of B texts: ragged `(B, tokens)` int32 tensors.

    Attributes:
        token_ids: ids in the vocabulary.
        starts, ends: the range of the original text that became the token: `text[start:end]`.
        word_ids: the index in its text of the word that a token belongs to, from 0. A punctuation mark is a word.
    """

    token_ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    word_ids: tf.RaggedTensor


class BertTokenizer(SpecifiedTokenizer):
    """Tokenizer that splits text into WordPiece ids exactly as BERT does, in the graph and in large batches.

    The ids equal those of Google's `tokenization.py` for every string, with the Unicode version of `rules` and the same
    `max_input_chars_per_word`; `docs/reference/tokenizer.md` lists the differences of Hugging Face's tokenizer. NUL and
    bytes that are not UTF-8 are ignored, as in Google's code.

    Args:
        vocabulary: the tokens in the order of their ids, including `SPECIAL_TOKENS`.
        lowercase: fold case and strip accents first ("uncased" BERT).
        strip_accents: whether to strip accents. `None`: as `lowercase`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        max_input_chars_per_word: longer words become [UNK]. Google's code has 200, Hugging Face's 100.
        text_rules: "bert", or "mediapipe" for the rules of MediaPipe's tokenizer on a phone (see `TextRules`).
        unicode_version: the Unicode version of the rules, which checkpoints store.
        additional_special_tokens: your own tokens, "[E1]" for example, that are never split, as in Hugging Face's
            library. A phone splits them, and so does `text_rules="mediapipe"`.
        added_tokens: your own tokens that are matched after case and accents are folded, also inside words, and never
            split, like those of `add_tokens` in Hugging Face's library. They can be masked like words.
        max_sequence_length: the maximum sequence length of the tokenizer's model, in tokens. It is saved with the
            tokenizer, not applied. `None`: unknown.

    Attributes:
        spec: the arguments of this tokenizer, which need no TensorFlow.
        vocabulary: the tokens, in the order of their ids.
        vocabulary_size: V, the number of tokens.
        rules: the rules by which text is split into words.
        lowercase: whether case is folded ("uncased").
        special_tokens: `SPECIAL_TOKENS`, then the additional ones.
        added_tokens: tokens that are matched in the normalized text and never split; they are not special tokens.
        max_sequence_length: the maximum sequence length of the tokenizer's model, in tokens; `None` if unknown.
        special_ids: the ids of `SPECIAL_TOKENS`, in that order.
        pad_id: the id of [PAD].
        unk_id: the id of [UNK], the token of words that the vocabulary cannot spell.
        cls_id: the id of [CLS], the first token of every sequence.
        sep_id: the id of [SEP], the token after every sentence.
        mask_id: the id of [MASK].

    Raises:
        InputError: the vocabulary or a setting is invalid.

    Example:
        >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> tokenizer.tokenize(["Playing pl\u00e1y"]).to_list()
        [[5, 6, 5]]
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        max_input_chars_per_word: int = 100,
        text_rules: str = "bert",
        unicode_version: str = UNICODE_VERSION,
        additional_special_tokens: Sequence[str] = (),
        added_tokens: Sequence[str] = (),
        max_sequence_length: int | None = None,
    ):
        rules = TextRules(
            lowercase=lowercase,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            max_input_chars_per_word=max_input_chars_per_word,
            text_rules=text_rules,
            unicode_version=unicode_version,
        )
        own_tokens = tuple(additional_special_tokens), tuple(added_tokens)
        super().__init__(TokenizerSpec(tuple(vocabulary), rules, *own_tokens, max_sequence_length))
        self._runner, self._rewriter = BatchRunner(), Rewriter(self.spec)
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        whole_ids = [ids[token] for token in (*self.special_tokens, *self.added_tokens)]
        with tf.init_scope():  # constants outside of the graph, if the tokenizer is created in a traced function
            self._word_piece = self._rewriter.make_word_piece()
            self._ids_of_tokens = tf.constant([*ids.values(), *whole_ids], tf.int32)
            special_tokens = frozenset(self.special_tokens)
            self._glued = tf.constant([_get_glue(token, special_tokens) for token in self.vocabulary])
            self._continues = tf.constant([token.startswith("##") for token in self.vocabulary])

    @classmethod
    def from_vocabulary(cls, path: str | os.PathLike, **settings: Any) -> "BertTokenizer":
        """Create a tokenizer from a `vocab.txt` and the settings file next to it.

        Args:
            path: a vocabulary file, or a model folder.
            **settings: arguments of the constructor; they are needed only if there is no settings file.

        Returns:
            The tokenizer.

        Raises:
            InputError: the vocabulary cannot be read, or an argument contradicts the settings file.

        Example:
            >>> tokenizer = bk.BertTokenizer.from_vocabulary("demo/vocab.txt")
            >>> tokenizer.vocabulary[:5]
            ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')
        """
        return cls(**read_vocabulary_and_settings(path, settings))

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike) -> "BertTokenizer":
        """Load the tokenizer of a model folder, written by `save` or by Hugging Face's library.

        The tokens come from `tokenizer.json`, else from `vocab.txt` and `added_tokens.json`; the settings from
        `tokenizer_config.json`, and those that it lacks from `tokenizer.json`; the maximum sequence length first from
        sentence-transformers' `sentence_bert_config.json`.

        Args:
            folder: the model folder.

        Returns:
            The tokenizer.

        Raises:
            InputError: there is no vocabulary, or a file cannot be read.
            UnsupportedTokenizerError: an `InputError`; the folder's text rules differ from BERT's.

        Example:
            >>> tokenizer = bk.BertTokenizer.from_checkpoint("demo/pretrained")
            >>> tokenizer.lowercase, tokenizer.max_sequence_length
            (True, 64)
        """
        settings = TokenizerFolder(folder).settings()
        try:
            return cls(**settings)
        except InputError as error:
            raise type(error)(f"{folder}: {error}") from None

    def save(self, folder: str | os.PathLike) -> None:
        """Write `vocab.txt`, `tokenizer_config.json` and `tokenizer.json`, for this class and Hugging Face's library.

        There is no `tokenizer.json` for MediaPipe's rules, which that library does not have.

        Args:
            folder: the folder, which is created if it does not exist; files of these names are replaced.

        Raises:
            OSError: the files cannot be written.

        Example:
            >>> bk.BertTokenizer.from_vocabulary("demo/vocab.txt").save("my/tokenizer")
            >>> bk.BertTokenizer.from_checkpoint("my/tokenizer").lowercase
            True
        """
        write_settings(folder, self.spec)

    def for_mediapipe(self) -> "BertTokenizer":
        """Return a tokenizer with the same vocabulary that splits text as MediaPipe does on a phone.

        Use it to train and evaluate a model for a phone: MediaPipe lowercases only ASCII, also for a cased model, and
        strips no accents.

        Returns:
            A new tokenizer.

        Raises:
            InputError: [PAD] is not the first token, although MediaPipe pads with id 0.

        Example:
            >>> bk.BertTokenizer.from_vocabulary("demo/vocab.txt").for_mediapipe().rules.text_rules
            'mediapipe'
        """
        if self.pad_id != 0:
            raise InputError(f"[PAD] has id {self.pad_id}; expected 0, the padding of MediaPipe: move it to the front")
        return BertTokenizer(
            self.vocabulary,
            text_rules="mediapipe",
            additional_special_tokens=self.spec.additional_special_tokens,
            max_sequence_length=self.max_sequence_length,
        )

    @without_autograph
    def tokenize(self, texts: Any, *, keep_special_tokens: bool = False) -> tf.RaggedTensor:
        """Return the token ids of each text, without [CLS] and [SEP].

        Works eagerly, in `tf.function` and in `tf.data`. An eager batch of many megabytes uses every core.

        Args:
            texts: `(B,)` strings: a list, an array or a tensor.
            keep_special_tokens: whether "[MASK]" or another of BERT's special tokens in a text is that token, and not
                an opening bracket, a word and a closing bracket. Leave it off for untrusted text. Additional special
                tokens are never split.

        Returns:
            `(B, tokens)` int32, ragged; empty for a text without words.

        Raises:
            InputError: `texts` is not a batch of strings.

        Example:
            >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
            >>> tokenizer.tokenize(["Playing pl\u00e1y"]).to_list()
            [[5, 6, 5]]
        """
        return self._runner.run(self._token_ids, as_text_tensor(texts), keep_special_tokens)[0]

    @without_autograph
    def tokenize_with_offsets(
        self, texts: Any, *, unit: str = "characters", keep_special_tokens: bool = False
    ) -> Tokens:
        """Return the tokens of each text, each with its range of the original text.

        `text[start:end]` became the token. Dropped marks and control characters are inside the range only between other
        characters; tokens of a character that became several share its range, and so do marks reordered by NFD. Bytes
        that are not UTF-8 count as in Python's `bytes.decode("utf-8", "replace")`.

        Args:
            texts: `(B,)` strings: a list, an array or a tensor.
            unit: "characters" (code points, as Python counts) or "bytes" of UTF-8, as TensorFlow counts.
            keep_special_tokens: as in `tokenize`.

        Returns:
            The `Tokens` of the texts: ids, ranges and word numbers, ragged `(B, tokens)` int32.

        Raises:
            InputError: `texts` is not a batch of strings, or `unit` is invalid.

        Example:
            >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
            >>> tokenizer.tokenize_with_offsets(["Playing"]).ends.to_list()
            [[4, 7]]
        """
        if unit not in ("characters", "bytes"):
            raise InputError(f"the unit of offsets is {unit!r}; expected 'characters' or 'bytes'")
        return Tokens(*self._runner.run(self._tokens, as_text_tensor(texts), keep_special_tokens, unit))

    def tokenize_to_arrays(self, texts: Any, *, with_offsets: bool = False) -> TokenArrays:
        """Return the tokens of all texts as NumPy arrays, as `tokenize` or `tokenize_with_offsets` do as tensors.

        Args:
            texts: `(B,)` strings.
            with_offsets: whether to compute the range of characters and the word of each token.

        Returns:
            The tokens of all texts in one array, and where each text begins.

        Raises:
            InputError: `texts` is not a batch of strings.

        Example:
            >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
            >>> tokenizer.tokenize_to_arrays(["Playing", "play"]).token_ids.tolist()
            [5, 6, 5]
        """
        if not with_offsets:
            ids = self.tokenize(texts)
            return TokenArrays(ids.flat_values.numpy(), ids.row_splits.numpy())
        tokens = self.tokenize_with_offsets(texts)
        flat_values = (ragged.flat_values.numpy() for ragged in tokens[1:])
        return TokenArrays(tokens.token_ids.flat_values.numpy(), tokens.token_ids.row_splits.numpy(), *flat_values)

    def _token_ids(self, texts: tf.Tensor, keep_special_tokens: bool) -> tuple[tf.RaggedTensor]:
        rewritten, _ = self._rewriter.rewrite(texts, keep_special_tokens, with_sources=False)
        ids = self._word_piece.tokenize(rewritten)
        return (self._with_special_ids(ids, keep_special_tokens),)

    def _tokens(self, texts: tf.Tensor, keep_special_tokens: bool, unit: str) -> Tokens:
        rewritten, sources = self._rewriter.rewrite(texts, keep_special_tokens, with_sources=True)
        ids, starts, ends = self._word_piece.tokenize_with_offsets(rewritten)
        ids = self._with_special_ids(ids, keep_special_tokens)
        starts, ends = (tf.cast(offsets.flat_values, tf.int32) for offsets in (starts, ends))
        starts, ends = map_to_original(sources, ids.value_rowids(), starts, ends, unit=unit)
        return Tokens(ids, ids.with_values(starts), ids.with_values(ends), self._word_ids(ids))

    def _with_special_ids(self, ids: tf.RaggedTensor, keep_special_tokens: bool) -> tf.RaggedTensor:
        """Replace the ids of stand-ins, which come after the vocabulary, by the ids of their special tokens."""
        if not self._rewriter.unsplit_tokens(keep_special_tokens) and not self.added_tokens:
            return ids
        return ids.with_values(tf.gather(self._ids_of_tokens, ids.flat_values))

    def _word_ids(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        begins_word = tf.cast(~tf.gather(self._continues, ids.flat_values), tf.int32)
        num_before = tf.concat([[0], tf.cumsum(begins_word)], axis=0)
        before_text = tf.gather(tf.gather(num_before, ids.row_starts()), ids.value_rowids())
        return ids.with_values(num_before[1:] - 1 - before_text)

    @without_autograph
    def detokenize(self, ids: Any) -> tf.Tensor:
        """Join tokens to text, with a space between words, without special tokens and padding.

        This is not the inverse of `tokenize`: case, accents and the spaces around punctuation are lost.

        Args:
            ids: `(B, S)` integers: a tensor, ragged or not, an array, or lists of any lengths.

        Returns:
            `(B,)` strings.

        Raises:
            ValueError: the ids are lists, but not of integers.

        Example:
            >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
            >>> tokenizer.detokenize([[2, 5, 6, 5, 3]]).numpy().tolist()
            [b'playing play']
        """
        if not isinstance(ids, tf.Tensor | tf.RaggedTensor | np.ndarray):
            ids = tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)
        return tf.strings.strip(tf.strings.reduce_join(tf.gather(self._glued, ids), axis=-1))

    def __repr__(self) -> str:
        return (
            f"BertTokenizer({self.vocabulary_size} tokens, lowercase={self.lowercase}, "
            f"max_sequence_length={self.max_sequence_length})"
        )


def _get_glue(token: str, special_tokens: Collection[str]) -> str:
    """Return what a token adds to the text of `detokenize`."""
    if token in special_tokens:
        return ""
    return token.removeprefix("##") if token.startswith("##") else f" {token}"
