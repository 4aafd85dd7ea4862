"""tensorflow-text's WordPiece for rewritten text, and checks of the tokens that are matched in it."""

import unicodedata
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.pipelines.text.graph.character_table import CharacterTable
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.vocabulary import MAX_TOKEN_BYTES


def make_word_piece(
    table: CharacterTable, vocabulary: Sequence[str], max_word_length: int
) -> tf_text.FastWordpieceTokenizer:
    """Return tensorflow-text's WordPiece for rewritten text, whose words are at most `max_word_length` characters.

    Its vocabulary is `vocabulary`, followed by the stand-ins of special tokens.
    """
    tokens = [table.rewrite_token(token) for token in vocabulary]
    for token, rewritten in zip(vocabulary, tokens, strict=True):
        if len(rewritten.removeprefix("##").encode()) > MAX_TOKEN_BYTES:
            raise InputError(
                f"the vocabulary's token {token[:20]!r}... has {len(token)} characters; expected at most "
                f"{MAX_TOKEN_BYTES}, or {MAX_TOKEN_BYTES // 4} outside ASCII: learn a vocabulary of shorter tokens"
            )
    return tf_text.FastWordpieceTokenizer(
        [*tokens, *map(chr, table.special)],
        unknown_token="[UNK]",
        max_bytes_per_word=4 * max_word_length,
        token_out_type=tf.int32,
    )


def fold_letters(token: str) -> str:
    """Return every letter that the letters of a token can become: with folded case, with and without accents."""
    return unicodedata.normalize("NFD", token.lower()) + unicodedata.normalize("NFC", token.lower())


def check_added_tokens(tokens: Sequence[str], table: CharacterTable, rules: TextRules) -> None:
    """Raise `InputError` unless each added token occurs in normalized text and differs there from the others."""
    if tokens and rules.is_mediapipe:
        raise InputError(
            f"added_tokens has {tokens[0]!r}, which text_rules 'mediapipe' splits; expected no added tokens: remove it"
        )
    seen: dict[tuple[int, ...], str] = {}
    for token in tokens:
        stand_ins = table.normalize(token)
        if not stand_ins or not table.is_known(stand_ins) or token.startswith("##"):
            raise UnsupportedTokenizerError(
                f"the added token {token!r} never occurs in normalized text; expected letters, marks that are not "
                "stripped or punctuation, without ## before them: remove it from added_tokens"
            )
        if (other := seen.setdefault(stand_ins, token)) != token:
            raise UnsupportedTokenizerError(
                f"the added tokens {other!r} and {token!r} are equal in normalized text; expected different tokens: "
                "remove one"
            )
