"""`BertTokenizer`: text to WordPiece ids and back, in the TensorFlow graph.

The same object tokenizes in training, in evaluation and inside an exported model, so
the three cannot disagree.
"""

import collections
import os
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.pipelines.text.autograph import without_autograph
from bert_keras.pipelines.text.bulk import map_in_chunks
from bert_keras.pipelines.text.character_table import CharacterTable
from bert_keras.pipelines.text.rewriting import Rewriter, original_ranges
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import check_length, read_settings, write_settings
from bert_keras.pipelines.text.unicode_table import UNICODE_VERSION
from bert_keras.pipelines.text.vocabulary import (
    MAX_TOKEN_BYTES,
    SPECIAL_TOKENS,
    check_special_tokens,
    check_vocabulary,
)
from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings

_EAGER_BATCHES, _EAGER_TEXTS = 8, 32  # batches of so many texts at most that run without a graph


class Tokens(NamedTuple):
    """The tokens of B texts, each `(B, tokens)` int32, ragged.

    Attributes:
        token_ids: ids in the vocabulary.
        starts, ends: the range of the original text that the token was made of: `text[start:end]`.
        word_ids: which word of its text a token belongs to, from 0. A punctuation mark is a word.
    """

    token_ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    word_ids: tf.RaggedTensor


class BertTokenizer:
    """Splits text into WordPiece ids exactly as BERT does, in the graph and in bulk.

    Its ids are those of Google's `tokenization.py` for every string, under the Unicode version of `rules` and the same
    `max_input_chars_per_word`; `docs/reference/tokenizer.md` lists where Hugging Face's tokenizer differs from that. Bytes that
    are not UTF-8 and NUL are ignored, as Google's code does.

    Args:
        vocabulary: the tokens in the order of their ids, `SPECIAL_TOKENS` among them.
        lowercase: fold case and strip accents first ("uncased" BERT).
        strip_accents: whether to strip accents, where that differs from `lowercase`.
        tokenize_chinese_chars: whether each Chinese character is a word.
        max_input_chars_per_word: a longer word is [UNK]. Google's own code has 200, Hugging Face's 100.
        text_rules: "bert", or "mediapipe" for what MediaPipe's tokenizer on a phone does (see `TextRules`).
        unicode_version: the Unicode version of the rules; a checkpoint says which one it was made with.
        additional_special_tokens: tokens of your own, "[E1]" for example, that are never split, as in Hugging
            Face's library; a phone splits them, and so does `text_rules` "mediapipe".
        added_tokens: tokens of your own that are looked for after case and accents were folded, and never split, also
            inside a word, as those that `add_tokens` of Hugging Face's library adds. They may be masked, as words are.
        max_sequence_length: the longest input of the model this tokenizer belongs to, in tokens; only
            kept and saved, never applied here. `None`: not known.

    Raises:
        InputError: the vocabulary or a setting cannot be used.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
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
        self._vocabulary = tuple(vocabulary)
        check_vocabulary(self._vocabulary)
        self._rules = TextRules(
            lowercase=lowercase,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            max_input_chars_per_word=max_input_chars_per_word,
            text_rules=text_rules,
            unicode_version=unicode_version,
        )
        ids = {token: index for index, token in enumerate(self._vocabulary)}
        self._special_tokens = (*SPECIAL_TOKENS, *additional_special_tokens)
        self._added_tokens = tuple(added_tokens)
        check_special_tokens((*self._special_tokens, *self._added_tokens), ids)
        self._ids = {token: ids[token] for token in (*self._special_tokens, *self._added_tokens)}
        self._max_sequence_length = check_length(max_sequence_length)
        self._graphs: dict[tuple, Callable] = {}
        self._num_eager_batches: collections.Counter[tuple] = collections.Counter()
        table = CharacterTable(self._rules, (*self._vocabulary, *map(_folded, self._added_tokens)), tuple(self._ids))
        _check_added_tokens(self._added_tokens, table, self._rules)
        always_whole = () if self._rules.is_mediapipe else self._special_tokens[len(SPECIAL_TOKENS) :]
        self._rewriter = Rewriter(self._rules, table, self._special_tokens, always_whole, self._added_tokens)
        with tf.init_scope():  # constants of their own, also when the tokenizer is made inside a traced function
            self._word_piece = _word_piece(table, self._vocabulary, self._rules.max_input_chars_per_word)
            self._ids_of_tokens = tf.constant([*range(len(self._vocabulary)), *self._ids.values()], tf.int32)
            special_tokens = frozenset(self._special_tokens)
            self._glued = tf.constant([_glued(token, special_tokens) for token in self._vocabulary])
            self._continues = tf.constant([token.startswith("##") for token in self._vocabulary])

    @classmethod
    def from_vocabulary(cls, path: str | os.PathLike, **settings) -> "BertTokenizer":
        """Make a tokenizer of a `vocab.txt`, with the settings that stand beside it, and the constructor's arguments.

        Raises:
            InputError: the vocabulary cannot be read, or an argument contradicts the settings beside it.
        """
        return cls(**read_vocabulary_and_settings(path, settings))

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike) -> "BertTokenizer":
        """Makes the tokenizer that `save` or Hugging Face's library wrote into a model folder.

        Reads the tokens from `tokenizer.json`, else from `vocab.txt` and `added_tokens.json`; the settings from
        `tokenizer_config.json` and, where that is silent, `tokenizer.json`; from sentence-transformers'
        `sentence_bert_config.json` a shorter length, if it says one.

        Raises:
            InputError: there is no vocabulary, or a file cannot be read.
            UnsupportedTokenizerError: an `InputError`; the folder asks for rules that this tokenizer does not have.
        """
        settings = read_settings(folder)
        try:
            return cls(**settings)
        except InputError as error:
            raise type(error)(f"{folder}: {error}") from None

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `vocab.txt`, `tokenizer_config.json` and `tokenizer.json`, which Hugging Face's library opens too.

        With MediaPipe's rules there is no `tokenizer.json`: that library cannot follow them.
        """
        write_settings(folder, self)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, in the order of their ids."""
        return self._vocabulary

    @property
    def vocabulary_size(self) -> int:
        """V, the number of tokens."""
        return len(self._vocabulary)

    @property
    def rules(self) -> TextRules:
        """How text becomes words."""
        return self._rules

    def for_mediapipe(self) -> "BertTokenizer":
        """Returns a tokenizer that reads text as MediaPipe does on a phone, with this one's vocabulary.

        Train and score with it what a phone will run: it lower-cases ASCII alone, even for a cased model, and
        strips no accents.

        Raises:
            InputError: [PAD] is not the first token; MediaPipe pads with id 0.
        """
        if self.pad_id != 0:
            raise InputError(f"[PAD] has id {self.pad_id}; expected 0, with which MediaPipe pads: move it to the front")
        return BertTokenizer(
            self.vocabulary,
            text_rules="mediapipe",
            additional_special_tokens=self.special_tokens[len(SPECIAL_TOKENS) :],
            max_sequence_length=self.max_sequence_length,
        )

    @property
    def lowercase(self) -> bool:
        """Whether case is folded ("uncased")."""
        return self._rules.lowercase

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """`SPECIAL_TOKENS` and the additional ones."""
        return self._special_tokens

    @property
    def added_tokens(self) -> tuple[str, ...]:
        """Tokens that are no special ones, looked for in the normalized text and never split."""
        return self._added_tokens

    @property
    def max_sequence_length(self) -> int | None:
        """The longest input of the tokenizer's model, in tokens; `None` if it is not known."""
        return self._max_sequence_length

    @property
    def pad_id(self) -> int:
        """The id of [PAD]."""
        return self._ids["[PAD]"]

    @property
    def unk_id(self) -> int:
        """The id of [UNK], which stands for a word that the tokens cannot spell."""
        return self._ids["[UNK]"]

    @property
    def cls_id(self) -> int:
        """The id of [CLS], the first token of every sequence."""
        return self._ids["[CLS]"]

    @property
    def sep_id(self) -> int:
        """The id of [SEP], the last token of every sentence."""
        return self._ids["[SEP]"]

    @property
    def mask_id(self) -> int:
        """The id of [MASK]."""
        return self._ids["[MASK]"]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of `SPECIAL_TOKENS`, in that order."""
        return tuple(self._ids[token] for token in SPECIAL_TOKENS)

    @without_autograph
    def tokenize(self, texts, *, keep_special_tokens: bool = False) -> tf.RaggedTensor:
        """Returns the ids of the tokens of each text, without [CLS] and [SEP].

        Works eagerly, in `tf.function` and in `tf.data`. An eager batch of many megabytes takes every core.

        Args:
            texts: `(B,)` strings: a list, an array or a tensor.
            keep_special_tokens: whether "[MASK]" or another of BERT's tokens, written in a text, is that token, and not
                an opening bracket, a word and a closing one. Leave it off for text that strangers write. Additional
                special tokens are whole in any case.

        Returns:
            `(B, tokens)` int32, ragged. A text without words has none.

        Raises:
            InputError: `texts` is not a batch of strings.
        """
        return self._for_each_text(self._token_ids, texts, keep_special_tokens)[0]

    @without_autograph
    def tokenize_with_offsets(self, texts, *, unit: str = "characters", keep_special_tokens: bool = False) -> Tokens:
        """Returns the tokens of each text with the range of the text that each was made of.

        `text[start:end]` is the source of the token: a mark or a control character that was dropped lies outside at the
        ends and inside between; the tokens of a character that became several share its range, as do marks that
        canonical order moved. Bytes that are not UTF-8 count as in Python's `bytes.decode("utf-8", "replace")`.

        Args:
            texts: `(B,)` strings: a list, an array or a tensor.
            unit: "characters" (code points, as Python counts) or "bytes" of UTF-8, as TensorFlow counts.
            keep_special_tokens: as in `tokenize`.

        Raises:
            InputError: `texts` is not a batch of strings, or there is no such unit.
        """
        if unit not in ("characters", "bytes"):
            raise InputError(f"the unit of offsets is {unit!r}; expected 'characters' or 'bytes'")
        return Tokens(*self._for_each_text(self._tokens, texts, keep_special_tokens, unit))

    def _token_ids(self, texts: tf.Tensor, keep_special_tokens: bool) -> tuple[tf.RaggedTensor]:
        rewritten = self._rewriter.rewrite(texts, keep_special_tokens=keep_special_tokens)
        ids = self._word_piece.tokenize(rewritten)
        return (self._with_special_ids(ids, keep_special_tokens),)

    def _tokens(self, texts: tf.Tensor, keep_special_tokens: bool, unit: str) -> Tokens:
        rewritten, sources = self._rewriter.rewrite_with_sources(texts, keep_special_tokens=keep_special_tokens)
        ids, starts, ends = self._word_piece.tokenize_with_offsets(rewritten)
        ids = self._with_special_ids(ids, keep_special_tokens)
        starts, ends = (tf.cast(places.flat_values, tf.int32) for places in (starts, ends))
        starts, ends = original_ranges(sources, ids.value_rowids(), starts, ends, unit=unit)
        return Tokens(ids, ids.with_values(starts), ids.with_values(ends), self._word_ids(ids))

    def _for_each_text(self, function, texts, *options) -> tuple[tf.RaggedTensor, ...]:
        """Returns `function(texts, *options)`; eager batches run as a graph, large ones in chunks on every core.

        The first small ones run op by op: 0.01 to 0.05 s for a text with an accent, where tracing takes 0.3 to 1.1 s.
        """
        texts = _as_text_tensor(texts)
        if tf.executing_eagerly():
            if self._is_traced_late(texts, function.__name__, *options):
                return tuple(function(texts, *options))
            return map_in_chunks(self._graph(function, *options), texts)
        results = function(texts, *options)
        if texts.shape.rank == 1 and texts.shape[0] is not None:  # tensorflow-text forgets a B that was known
            for ragged in results:
                ragged.row_splits.set_shape([texts.shape[0] + 1])
        return results

    def _is_traced_late(self, texts: tf.Tensor, *key) -> bool:
        """Whether a batch is small, and so few came before it that a graph would not pay."""
        if key in self._graphs or texts.shape[0] > _EAGER_TEXTS or self._num_eager_batches[key] == _EAGER_BATCHES:
            return False
        self._num_eager_batches[key] += 1
        return True

    def _graph(self, function, *options) -> Callable[[tf.Tensor], tuple[tf.RaggedTensor, ...]]:
        """Returns `function` as a graph, made once; op by op a text with an accent takes ten times as long."""
        key = (function.__name__, *options)
        if key not in self._graphs:
            run = without_autograph(lambda texts: function(texts, *options))
            self._graphs[key] = tf.function(run, input_signature=[tf.TensorSpec([None], tf.string)])
        return self._graphs[key]

    def _with_special_ids(self, ids: tf.RaggedTensor, keep_special_tokens: bool) -> tf.RaggedTensor:
        """Gives special tokens their ids: their stand-ins come after the vocabulary's tokens."""
        if not self._rewriter.kept(keep_special_tokens) and not self._added_tokens:
            return ids
        return ids.with_values(tf.gather(self._ids_of_tokens, ids.flat_values))

    def _word_ids(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        begins_word = tf.cast(~tf.gather(self._continues, ids.flat_values), tf.int32)
        num_before = tf.concat([[0], tf.cumsum(begins_word)], axis=0)
        before_text = tf.gather(tf.gather(num_before, ids.row_starts()), ids.value_rowids())
        return ids.with_values(num_before[1:] - 1 - before_text)

    @without_autograph
    def detokenize(self, ids) -> tf.Tensor:
        """Joins tokens to text: a space between words, special tokens and padding left out.

        Not the inverse of `tokenize`: case, accents and spacing around punctuation are gone.

        Args:
            ids: `(B, S)` integers: a tensor, ragged or not, an array, or lists of any lengths.

        Returns:
            `(B,)` strings.
        """
        if not isinstance(ids, tf.Tensor | tf.RaggedTensor | np.ndarray):
            ids = tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)
        return tf.strings.strip(tf.strings.reduce_join(tf.gather(self._glued, ids), axis=-1))

    def __repr__(self) -> str:
        return (
            f"BertTokenizer({self.vocabulary_size} tokens, lowercase={self.lowercase}, "
            f"max_sequence_length={self.max_sequence_length})"
        )


def _word_piece(table: CharacterTable, vocabulary: Sequence[str], limit: int) -> tf_text.FastWordpieceTokenizer:
    """Returns tensorflow-text's WordPiece over rewritten text, whose words are never longer than `limit` characters.

    Its vocabulary is `vocabulary` and, behind it, the stand-ins of special tokens.
    """
    tokens = [table.rewritten_token(token) for token in vocabulary]
    for token, rewritten in zip(vocabulary, tokens, strict=True):
        if len(rewritten.removeprefix("##").encode()) > MAX_TOKEN_BYTES:
            raise InputError(
                f"the vocabulary's token {token[:20]!r}... has {len(token)} characters; expected at most "
                f"{MAX_TOKEN_BYTES}, or {MAX_TOKEN_BYTES // 4} outside ASCII: learn a vocabulary of shorter tokens"
            )
    return tf_text.FastWordpieceTokenizer(
        [*tokens, *map(chr, table.special)],
        unknown_token="[UNK]",
        max_bytes_per_word=4 * limit,
        token_out_type=tf.int32,
    )


def _glued(token: str, special_tokens: Collection[str]) -> str:
    """Returns what a token adds to a text that is written token by token."""
    if token in special_tokens:
        return ""
    return token.removeprefix("##") if token.startswith("##") else f" {token}"


def _as_text_tensor(texts) -> tf.Tensor:
    if not isinstance(texts, tf.Tensor):
        texts = _converted(texts)
    if texts.dtype != tf.string or texts.shape.rank not in (1, None):
        raise InputError(
            f"the tokenizer was given a {texts.dtype.name} tensor of shape {texts.shape}; expected a batch of strings, "
            "shape (B,): give one text a row"
        )
    return texts


def _converted(texts) -> tf.Tensor:
    array = np.asarray(texts, dtype=object)
    if array.ndim == 1 and set(map(type, array)) <= {str, bytes}:
        try:
            return tf.constant(array, tf.string)  # five times as fast as looking at each text first
        except ValueError:  # half a surrogate pair; which, `as_text_array` says
            pass
    return tf.constant(as_text_array(texts), tf.string)


def as_text_array(texts) -> np.ndarray:
    """Returns a batch of texts as an array `(B,)` of strings; raises `InputError` if it is none."""
    array = np.asarray(texts, dtype=object)
    if array.ndim != 1:
        kind = "one text" if isinstance(texts, str | bytes) else f"{array.ndim} dimensions"
        raise InputError(f"the tokenizer was given {kind}; expected a batch of texts, shape (B,): give a list of them")
    for index, text in enumerate(array):
        if not isinstance(text, str | bytes):
            raise InputError(f"text {index} is {text!r}, a {type(text).__name__}; expected a string: convert it")
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"text {index} holds half a surrogate pair, which UTF-8 cannot hold: repair the text")
    return array


def _folded(token: str) -> str:
    """Returns text with every letter that a token can become: capital and small ones, with and without accents."""
    return unicodedata.normalize("NFD", token.lower()) + unicodedata.normalize("NFC", token.lower())


def _check_added_tokens(tokens: Sequence[str], table: CharacterTable, rules: TextRules) -> None:
    """Raises `InputError` unless each added token can be found in normalized text, and in one way only."""
    if tokens and rules.is_mediapipe:
        raise InputError(
            f"added_tokens {tokens[0]!r} is given with text_rules 'mediapipe', which splits it: leave it out"
        )
    seen: dict[tuple[int, ...], str] = {}
    for token in tokens:
        stand_ins = table.normalized(token)
        if not stand_ins or not table.is_known(stand_ins) or token.startswith("##"):
            raise UnsupportedTokenizerError(
                f"the added token {token!r} cannot be found in normalized text; expected letters, marks that are not "
                "stripped or punctuation, and no ## before them: leave it out of added_tokens"
            )
        if (other := seen.setdefault(stand_ins, token)) != token:
            raise UnsupportedTokenizerError(
                f"the added tokens {other!r} and {token!r} are one in normalized text: leave one out"
            )
