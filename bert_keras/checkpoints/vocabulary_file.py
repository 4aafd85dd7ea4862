"""`vocab.txt` of a checkpoint folder, read once and checked, and the tokenizer's settings beside it."""

import pathlib
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.pipelines.tokenizer_folder import read_settings
from bert_keras.pipelines.vocabulary import SPECIAL_TOKENS, read_vocabulary

VOCABULARY = "vocab.txt"


def read_vocabulary_of(folder: pathlib.Path, expected: int) -> list[str] | None:
    """Returns the tokens of a folder's `vocab.txt`, None if there is no such file.

    Raises:
        InputError: the file is no vocabulary, or has not as many tokens as the model.
    """
    path = folder / VOCABULARY
    if not path.exists():
        return None
    vocabulary = read_vocabulary(path)
    if len(vocabulary) != expected:
        raise InputError(
            f"{path} has {len(vocabulary):,} pieces, the model's token table {expected:,}: "
            "the vocabulary is of another model, so put the right one there"
        )
    return vocabulary


def read_tokenizer_settings(folder: pathlib.Path, vocabulary: Sequence[str] | None) -> dict | None:
    """Returns the arguments of `BertTokenizer` for a folder whose vocabulary was read; None if it has none.

    A Google checkpoint does not say whether it is cased: its vocabulary does, by its capital letters.

    Raises:
        InputError: a file cannot be read, or asks for rules that `BertTokenizer` does not have.
    """
    if vocabulary is None:
        return None
    if (folder / "tokenizer_config.json").exists():
        return read_settings(folder, vocabulary)
    return {"vocabulary": vocabulary, "lowercase": _is_uncased(vocabulary)}


def read_preset_settings(folder: pathlib.Path) -> dict | None:
    """Returns the arguments of `BertTokenizer` for a preset folder of KerasHub, or None if it has no vocabulary."""
    vocabulary = folder / "assets/tokenizer/vocabulary.txt"
    if not vocabulary.exists():
        return None
    settings = read_json(folder / "tokenizer.json").get("config", {})
    return {
        "vocabulary": read_vocabulary(vocabulary),
        "lowercase": settings.get("lowercase", False),
        "strip_accents": settings.get("strip_accents"),
    }


def _is_uncased(vocabulary: Sequence[str]) -> bool:
    words = (token for token in vocabulary if token not in SPECIAL_TOKENS)
    return not any(token != token.lower() for token in words)
