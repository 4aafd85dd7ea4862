"""Writing a tokenizer's files into a model folder, for us and for Hugging Face's libraries."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bert_keras.files import write_json
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer_folder import (
    CONFIG_NAMES,
    OUR_KEY,
    OUR_SETTINGS,
    SPECIAL_TOKENS_KEYS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    UNLIMITED,
    VOCABULARY,
)
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, write_vocabulary

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer


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
