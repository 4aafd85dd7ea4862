"""A tokenizer in Hugging Face's `tokenizers`: to tokenize without TensorFlow, and as files in a model folder."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.errors import UnsupportedTokenizerError
from bert_keras.files import write_json
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.token_arrays import TokenArrays, as_text_array
from bert_keras.pipelines.text.tokenizer_folder import (
    CONFIG_NAMES,
    OUR_KEY,
    OUR_SETTINGS,
    SPECIAL_TOKENS_KEYS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    UNLIMITED,
    VOCABULARY,
    check_length,
)
from bert_keras.pipelines.text.vocabulary import (
    SPECIAL_TOKENS,
    check_special_tokens,
    check_vocabulary,
    write_vocabulary,
)

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer


class PortableTokenizer:
    """Tokenizer that splits text into WordPiece ids without TensorFlow, for programs that only predict.

    It is Hugging Face's library with the vocabulary and the text rules of a `BertTokenizer`, as `BertTokenizer.save`
    writes them to `tokenizer.json`. Its Unicode version is that of the library, so the ids of rare characters can
    differ from `BertTokenizer`'s (`docs/reference/tokenizer.md` lists them); the parity report of an ONNX artifact
    counts the texts that do. Special tokens in a text are ordinary text, as in `BertTokenizer.tokenize`.

    Args:
        vocabulary: the tokens in the order of their ids, including `SPECIAL_TOKENS`.
        additional_special_tokens, added_tokens, max_sequence_length: see `BertTokenizer`.
        **rules: fields of `TextRules`.

    Raises:
        InputError: the vocabulary or a setting is invalid, or the text rules are MediaPipe's.

    Example:
        >>> tokenizer = PortableTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> tokenizer.tokenize_to_arrays(["Playing pl\u00e1y"]).token_ids.tolist()
        [5, 6, 5]
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        additional_special_tokens: Sequence[str] = (),
        added_tokens: Sequence[str] = (),
        max_sequence_length: int | None = None,
        **rules: Any,
    ):
        self.vocabulary = tuple(vocabulary)
        check_vocabulary(self.vocabulary)
        self.rules = TextRules(**rules)
        if self.rules.is_mediapipe:
            raise UnsupportedTokenizerError(
                "the tokenizer has MediaPipe's text rules, which run in TensorFlow only; expected BERT's: use the "
                "engine tensorflow"
            )
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        check_special_tokens((*SPECIAL_TOKENS, *additional_special_tokens, *added_tokens), ids)
        self.pad_id, self.cls_id, self.sep_id = (ids[token] for token in ("[PAD]", "[CLS]", "[SEP]"))
        self.max_sequence_length = check_length(max_sequence_length)
        self._rust = make_rust_tokenizer(
            self.vocabulary, self.rules, unsplit_tokens=tuple(additional_special_tokens), added_tokens=added_tokens
        )

    @property
    def vocabulary_size(self) -> int:
        """V, the number of tokens."""
        return len(self.vocabulary)

    def tokenize_to_arrays(self, texts: Any, *, with_offsets: bool = False) -> TokenArrays:
        """Return the tokens of all texts as NumPy arrays.

        Args:
            texts: `(B,)` strings.
            with_offsets: whether to compute the range of characters and the word of each token.

        Raises:
            InputError: `texts` is not a batch of strings.
        """
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in as_text_array(texts)]
        run = self._rust.encode_batch if with_offsets else self._rust.encode_batch_fast
        encodings = run(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        row_splits = np.cumsum([0, *map(len, ids)])
        token_ids = np.fromiter((number for text in ids for number in text), np.int32, row_splits[-1])
        if not with_offsets:
            return TokenArrays(token_ids, row_splits)
        offsets = np.array([pair for encoding in encodings for pair in encoding.offsets], np.int32).reshape(-1, 2)
        word_ids = np.array([number for encoding in encodings for number in encoding.word_ids], np.int32)
        return TokenArrays(token_ids, row_splits, offsets[:, 0], offsets[:, 1], word_ids)


def make_rust_tokenizer(
    vocabulary: Sequence[str],
    rules: TextRules,
    *,
    special_tokens: Sequence[str] = (),
    unsplit_tokens: Sequence[str] = (),
    added_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Return a tokenizer of Hugging Face's library.

    Args:
        vocabulary: the tokens in the order of their ids.
        rules: BERT's text rules.
        special_tokens: tokens that are matched in the raw text and left out when ids are decoded.
        unsplit_tokens: tokens that are matched in the raw text.
        added_tokens: tokens that are matched after case and accents are folded.
    """
    ids = {token: index for index, token in enumerate(vocabulary)}
    limit = rules.max_input_chars_per_word
    rust = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=limit))
    rust.normalizer = normalizers.BertNormalizer(
        lowercase=rules.lowercase,
        strip_accents=rules.strip_accents,
        handle_chinese_chars=rules.tokenize_chinese_chars,
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    rust.add_special_tokens(list(special_tokens))
    rust.add_tokens([AddedToken(token, normalized=False) for token in unsplit_tokens])
    rust.add_tokens([AddedToken(token, normalized=True) for token in added_tokens])
    return rust


def write_settings(folder: str | os.PathLike, tokenizer: BertTokenizer) -> None:
    """Write the files of a tokenizer: `vocab.txt`, `tokenizer_config.json` and, with BERT's rules, `tokenizer.json`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_vocabulary(folder / VOCABULARY, tokenizer.vocabulary)
    write_json(folder / TOKENIZER_CONFIG, _make_config(tokenizer))
    if tokenizer.rules.text_rules == "bert":  # `tokenizers` has no component with MediaPipe's rules
        rust = make_rust_tokenizer(
            tokenizer.vocabulary,
            tokenizer.rules,
            special_tokens=tokenizer.special_tokens,
            added_tokens=tokenizer.added_tokens,
        )
        text = rust.to_str(pretty=True)  # its `save` raises a bare Exception on a full disk
        (folder / TOKENIZER_JSON).write_text(text, encoding="utf-8")


def _make_config(tokenizer: BertTokenizer) -> dict[str, object]:
    rules = tokenizer.rules
    return {
        "tokenizer_class": "BertTokenizer",
        **{theirs: getattr(rules, ours) for ours, theirs in CONFIG_NAMES.items()},
        "model_max_length": tokenizer.max_sequence_length or UNLIMITED,
        **dict(zip(SPECIAL_TOKENS_KEYS, SPECIAL_TOKENS, strict=True)),
        "additional_special_tokens": list(tokenizer.special_tokens[len(SPECIAL_TOKENS) :]),
        OUR_KEY: {name: getattr(rules, name) for name in OUR_SETTINGS},
    }
