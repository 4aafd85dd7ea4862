"""Read and check the vocabulary and the tokenizer settings of a model folder."""

import logging
import pathlib
from collections.abc import Callable, Sequence

from bert_keras.checkpoints.keras_files.preset_settings import read_settings as read_own_settings
from bert_keras.checks import format_names, read_field
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.files import read_json
from bert_keras.pipelines.text.tokenizer_folder import TOKENIZER_JSON, VOCABULARY, TokenizerFolder
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, read_vocabulary

logger = logging.getLogger(__name__)
_MAX_PADDING = 1024  # rows without a token: tables are padded to a multiple of 8 to 1,024 rows


def open_tokenizer(folder: pathlib.Path, table_size: int | None = None) -> Callable[[], dict | None]:
    """Check a folder's vocabulary, and return a function that reads the arguments of `BertTokenizer`.

    Args:
        folder: a folder of bert_keras, transformers or Google.
        table_size: number of rows of the model's token table, which may be larger than the vocabulary; None: unknown.

    Returns:
        A function that returns the arguments, or None if there is no vocabulary. It raises `UnsupportedTokenizerError`
        for a tokenizer of another kind.

    Raises:
        InputError: the vocabulary cannot be read, or has more tokens than the model.
    """
    files = TokenizerFolder(folder)
    try:
        if table_size is not None and files.has_vocabulary:
            _check_fits(files.vocabulary, table_size, folder)
    except UnsupportedTokenizerError:
        pass  # the returned function raises it; the weights can be used without the tokenizer
    return lambda: _read_settings(files)


def _read_settings(files: TokenizerFolder) -> dict | None:
    """Return the arguments of `BertTokenizer`, or None if there is no vocabulary.

    A folder without settings, such as Google's, is treated as cased if its vocabulary has upper-case letters.
    """
    if not files.has_vocabulary and not files.other_kind:
        return None
    if files.has_settings or not files.has_vocabulary:
        return files.settings()
    return {"vocabulary": files.vocabulary, "lowercase": _is_uncased(files.vocabulary)}


def _check_fits(vocabulary: Sequence[str], table_size: int, folder: pathlib.Path) -> None:
    name = TOKENIZER_JSON if (folder / TOKENIZER_JSON).exists() else VOCABULARY
    if (missing := len(vocabulary) - table_size) > 0:
        raise InputError(
            f"{folder / name} has {len(vocabulary):,} tokens, the model's token table {table_size:,} rows: "
            f"{format_names(vocabulary[table_size:], 1)} have no embedding; the vocabulary is of another model, or "
            "tokens were added to it and not to the model: restore the vocabulary of the model, or call "
            f"resize_token_embeddings({len(vocabulary)}) of the model in transformers"
        )
    if -missing > _MAX_PADDING:
        logger.warning(
            "%s has %s tokens, the model's token table %s rows: does the vocabulary belong to this model?",
            folder / name,
            f"{len(vocabulary):,}",
            f"{table_size:,}",
        )


def read_preset_settings(folder: pathlib.Path) -> dict | None:
    """Return the arguments of `BertTokenizer` for a KerasHub preset folder, or None if it has no vocabulary."""
    vocabulary = folder / "assets/tokenizer/vocabulary.txt"
    if not vocabulary.exists():
        return None
    path = folder / "tokenizer.json"
    settings = read_field(read_json(path), "config", dict, source=path, default={})
    own = read_own_settings(folder)
    return {
        "vocabulary": read_vocabulary(vocabulary),
        "lowercase": read_field(settings, "lowercase", bool, source=path, default=False),
        "strip_accents": read_field(settings, "strip_accents", bool, source=path, default=None),
        "max_sequence_length": _read_sequence_length(folder),
        **({} if own is None else own.tokenizer),
    }


def _read_sequence_length(folder: pathlib.Path) -> int | None:
    """Return the maximum length in tokens of the preset's preprocessor, or None if there is no preprocessor."""
    path = folder / "preprocessor.json"
    values = read_json(path) if path.exists() else {}
    config = read_field(values, "config", dict, source=path, default={})
    return read_field(config, "sequence_length", int, source=path, default=None, minimum=1)


def _is_uncased(vocabulary: Sequence[str]) -> bool:
    words = (token for token in vocabulary if token not in SPECIAL_TOKENS)
    return not any(token != token.lower() for token in words)
