"""`BertTokenizer`: text to WordPiece ids and back, in the TensorFlow graph.

The same object tokenizes in training, in evaluation and inside an exported model, so
the three cannot disagree.
"""

import logging
import os
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.pipelines.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary, write_vocabulary

_LOG = logging.getLogger(__name__)

_MAX_WORD_BYTES = 100  # a longer word is [UNK], as in Google's code (which counts characters: the same for ASCII)
_UNLIMITED = int(1e30)  # what Hugging Face writes as `model_max_length` when there is none


class BertTokenizer:
    """Splits text into WordPiece ids as BERT does, in the graph.

    Its ids are those of Google's and Hugging Face's BERT tokenizers on ASCII text. They differ
    on some of Unicode, because tensorflow-text's `FastBertTokenizer` does the work: on 145,718 of 1,112,064
    code points when each stands between two letters, and on 85 of 13,040 paragraphs of Python's manual.
    It makes control characters spaces where the others delete them, and it measures over-long words
    in bytes. Special tokens written in a text ("[MASK]") are ordinary text, here split into three pieces or more.

    Args:
        vocabulary: the pieces in the order of their ids, `SPECIAL_TOKENS` among them.
        lowercase: fold case and strip accents first ("uncased" BERT).
        max_sequence_length: the longest input of the model this tokenizer belongs to, in pieces; only
            kept and saved, never applied here. `None`: not known.

    Raises:
        InputError: the vocabulary or the length cannot be used.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> tokenizer.tokenize(["Playing play"]).to_list()
        [[5, 6, 5]]
    """

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = True, max_sequence_length: int | None = None):
        self._vocabulary = tuple(vocabulary)
        check_vocabulary(self._vocabulary)
        self._ids = {token: index for index, token in enumerate(self._vocabulary) if token in SPECIAL_TOKENS}
        self._lowercase = _checked_flag(lowercase, "lowercase")
        self._max_sequence_length = _checked_length(max_sequence_length)
        with tf.init_scope():  # constants of their own, also when the tokenizer is made inside a traced function
            self._fast = tf_text.FastBertTokenizer(
                vocab=list(self._vocabulary),
                max_bytes_per_word=_MAX_WORD_BYTES,
                token_out_type=tf.int32,
                lower_case_nfd_strip_accents=self._lowercase,
            )
            self._glued = tf.constant([_glued(token) for token in self._vocabulary])

    @classmethod
    def from_vocabulary(
        cls, path: str | os.PathLike, *, lowercase: bool = True, max_sequence_length: int | None = None
    ) -> "BertTokenizer":
        """Makes a tokenizer of a `vocab.txt` (see `read_vocabulary` for what it must hold)."""
        return cls(read_vocabulary(path), lowercase=lowercase, max_sequence_length=max_sequence_length)

    @classmethod
    def from_checkpoint(cls, folder: str | os.PathLike) -> "BertTokenizer":
        """Makes the tokenizer that `save` or Hugging Face's library wrote into a model folder.

        Reads `vocab.txt`, from `tokenizer_config.json` the casing and the model's length, and from
        sentence-transformers' `sentence_bert_config.json` a shorter length, if it says one.

        Raises:
            InputError: there is no `vocab.txt`, or the folder asks for a rule that this tokenizer does not have.
        """
        folder = pathlib.Path(folder)
        vocabulary_path = folder / "vocab.txt"
        if not vocabulary_path.is_file():
            raise InputError(f"{vocabulary_path} does not exist; expected a BERT model folder: check the folder's name")
        config_path = folder / "tokenizer_config.json"
        config = read_json(config_path) if config_path.exists() else {}
        if "do_lower_case" not in config:
            _LOG.warning("%s does not say do_lower_case: text will be lowercased, as is BERT's default", config_path)
        lowercase = _checked_flag(config.get("do_lower_case", True), f"{config_path}: do_lower_case")
        _check_rules(config, lowercase, config_path)
        length = _length_of(folder, config)
        return cls.from_vocabulary(vocabulary_path, lowercase=lowercase, max_sequence_length=length)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `vocab.txt`, `tokenizer_config.json` and `tokenizer.json`, which Hugging Face's library opens too."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(folder / "vocab.txt", self._vocabulary)
        write_json(folder / "tokenizer_config.json", self._hugging_face_config())
        self._hugging_face_tokenizer().save(str(folder / "tokenizer.json"))

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The pieces, in the order of their ids."""
        return self._vocabulary

    @property
    def vocabulary_size(self) -> int:
        """V, the number of pieces."""
        return len(self._vocabulary)

    @property
    def lowercase(self) -> bool:
        """Whether case and accents are folded ("uncased")."""
        return self._lowercase

    @property
    def max_sequence_length(self) -> int | None:
        """The longest input of the tokenizer's model, in pieces; `None` if it is not known."""
        return self._max_sequence_length

    @property
    def pad_id(self) -> int:
        """The id of [PAD]."""
        return self._ids["[PAD]"]

    @property
    def unk_id(self) -> int:
        """The id of [UNK], which stands for a word that the pieces cannot spell."""
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

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Returns the ids of the pieces of each text, without special tokens.

        Works eagerly, in `tf.function` and in `tf.data`.

        Args:
            texts: `(B,)` strings: a list, an array or a tensor.

        Returns:
            `(B, pieces)` int32, ragged. A text without words has none.

        Raises:
            InputError: `texts` is not a batch of strings.
        """
        texts = _as_text_tensor(texts)
        ids = self._fast.tokenize(texts)
        if texts.shape.rank == 1 and texts.shape[0] is not None:  # tensorflow-text forgets a B that was known
            ids.row_splits.set_shape([texts.shape[0] + 1])
        return ids

    def detokenize(self, ids) -> tf.Tensor:
        """Joins pieces to text: a space between words, special tokens and padding left out.

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
            f"BertTokenizer({self.vocabulary_size} pieces, lowercase={self.lowercase}, "
            f"max_sequence_length={self.max_sequence_length})"
        )

    def _hugging_face_config(self) -> dict:
        length = _UNLIMITED if self.max_sequence_length is None else self.max_sequence_length
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        return {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": None,  # follows do_lower_case
            "tokenize_chinese_chars": True,
            "model_max_length": length,
            **dict(zip(names, SPECIAL_TOKENS, strict=True)),
        }

    def _hugging_face_tokenizer(self) -> Tokenizer:
        ids = {token: index for index, token in enumerate(self._vocabulary)}
        model = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_MAX_WORD_BYTES)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=self.lowercase)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix="##")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", self.cls_id), ("[SEP]", self.sep_id)],
        )
        tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
        return tokenizer


def _glued(token: str) -> str:
    """Returns what a piece adds to a text that is written piece by piece."""
    if token in SPECIAL_TOKENS:
        return ""
    return token.removeprefix("##") if token.startswith("##") else f" {token}"


def _as_text_tensor(texts) -> tf.Tensor:
    if not isinstance(texts, tf.Tensor):
        texts = tf.constant(text_array(texts), tf.string)
    if texts.dtype != tf.string or texts.shape.rank not in (1, None):
        raise InputError(
            f"the tokenizer was given a {texts.dtype.name} tensor of shape {texts.shape}; expected a batch of strings, "
            "shape (B,): give one text a row"
        )
    return texts


def text_array(texts) -> np.ndarray:
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


def _checked_flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected true or false")
    return value


def _checked_length(length: object) -> int | None:
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise InputError(f"the tokenizer's max_sequence_length is {length!r}; expected a whole number from 1, or none")
    return length


def _length_of(folder: pathlib.Path, config: dict) -> int | None:
    """Returns the shortest length that the folder's files ask for; "unlimited" counts as none."""
    sentence_config = folder / "sentence_bert_config.json"
    lengths = [config.get("model_max_length")]
    if sentence_config.exists():
        lengths.append(read_json(sentence_config).get("max_seq_length"))
    limits = [length for length in lengths if not (isinstance(length, int | float) and length >= _UNLIMITED)]
    return min((_checked_length(length) for length in limits if length is not None), default=None)


def _check_rules(config: dict, lowercase: bool, path: pathlib.Path) -> None:
    """Refuses a folder whose text rules are not BERT's own two, cased and uncased."""
    if config.get("strip_accents") not in (None, lowercase):
        raise InputError(
            f"{path} has strip_accents {config['strip_accents']!r} with do_lower_case {lowercase}; expected the two to "
            "agree, since this tokenizer folds case and accents together: its ids would differ from the model's"
        )
    if config.get("tokenize_chinese_chars", True) is not True:
        raise InputError(
            f"{path} has tokenize_chinese_chars {config['tokenize_chinese_chars']!r}; expected true, since this "
            "tokenizer always splits Chinese text into characters: its ids would differ from the model's"
        )
