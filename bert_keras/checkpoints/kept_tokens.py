"""Trim the vocabulary of a checkpoint to the tokens that given texts use: for exports and for distilled models.

`choose_tokens` reads the texts, `trim_checkpoint` makes the checkpoint with fewer tokens.
"""

import dataclasses
import itertools
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.errors import InputError
from bert_keras.heads.task import Task
from bert_keras.pipelines.text.graph.characters import fold_letters
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_NUM_CHECKED = 100  # texts whose outputs are compared before and after trimming
_TEXTS_PER_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class KeptTokens:
    """The tokens that texts need.

    Attributes:
        vocabulary: the tokens, in the order of the whole vocabulary.
        num_texts: number of texts that were read.
        first_texts: some of them, as the model reads them (with a prompt, for example).
    """

    vocabulary: tuple[str, ...]
    num_texts: int
    first_texts: list[str]


def choose_tokens(
    tokenizer: BertTokenizer, task: Task | None, texts: Iterable[str], names: Sequence[object]
) -> KeptTokens:
    """Choose the tokens that texts need.

    Kept are the tokens of the texts and of a task's prompts, all special and added tokens, and, so that other words can
    still be spelled, all tokens of a single character that is in ASCII or in the texts.

    Args:
        tokenizer: the tokenizer with the whole vocabulary.
        task: the task that reads the texts; None: they are read as they are.
        texts: the texts; empty ones are left out.
        names: what the texts are from, for messages.

    Raises:
        InputError: a file cannot be read, or the texts have no tokens.
    """
    unk_id = tokenizer.unk_id
    used, characters, unknown_words, first_texts, num_texts = set(), set(), set(), [], 0
    lines = filter(None, texts)
    while texts := list(itertools.islice(lines, _TEXTS_PER_BATCH)):
        num_texts += len(texts)
        read = texts if task is None else list(task.list_readings(texts))
        first_texts += read[: _NUM_CHECKED - len(first_texts)]
        characters.update(*texts)
        tokens = tokenizer.tokenize_to_arrays(read)
        used.update(np.unique(tokens.token_ids).tolist())
        with_unknown = np.unique(np.repeat(np.arange(len(read)), tokens.lengths)[tokens.token_ids == unk_id])
        unknown_words |= _find_unknown_words(tokenizer, [read[number] for number in with_unknown])
    if not used:
        listed = ", ".join(map(str, names)) or "an empty list"
        raise InputError(
            f"the texts to trim the vocabulary for, {listed}, have no tokens; expected texts like those that the model "
            "will read: name another file"
        )
    used |= _find_tokens_before_unknown_characters(tokenizer, unknown_words)
    always = {*tokenizer.special_tokens, *tokenizer.added_tokens}
    characters.update(*map(fold_letters, set(characters)))
    kept = (
        token
        for token_id, token in enumerate(tokenizer.vocabulary)
        if token_id in used or token in always or _is_known_character(token, characters)
    )
    return KeptTokens(tuple(kept), num_texts, first_texts)


def _is_known_character(token: str, characters: set[str]) -> bool:
    """Return whether a token is one character, also after ##, that is in ASCII or among the characters."""
    character = token[2:] if token.startswith("##") and len(token) > 2 else token
    return len(character) == 1 and (character.isascii() or character in characters)


def _find_unknown_words(tokenizer: BertTokenizer, texts: Sequence[str]) -> set[str]:
    """Return the words of texts that became [UNK], except those that are too long for any vocabulary."""
    if not texts:
        return set()
    tokens = tokenizer.tokenize_to_arrays(texts, with_offsets=True)
    numbers = np.repeat(np.arange(len(texts)), tokens.lengths)
    places = np.flatnonzero(tokens.token_ids == tokenizer.unk_id)
    words = {texts[numbers[place]][tokens.starts[place] : tokens.ends[place]] for place in places}
    return {word for word in words if len(word) <= tokenizer.rules.max_input_chars_per_word}


def _find_tokens_before_unknown_characters(tokenizer: BertTokenizer, words: Iterable[str]) -> set[int]:
    """Return the ids of the tokens that WordPiece finds in unknown words before it stops.

    Without them it could match shorter tokens, get past the place where it stopped, and no longer return [UNK]: with
    the tokens "ab", "a" and "##bc" the word "abc" is [UNK], but without "ab" it is "a ##bc".
    """
    prefixes: list[str] = []
    starts: list[int] = []  # the index of each word's first prefix
    for word in words:
        letters = unicodedata.normalize("NFD", word) if tokenizer.rules.strip_accents else word
        starts.append(len(prefixes))
        prefixes += [letters[:end] for end in range(1, len(letters))]
    found: set[int] = set()
    ids_of_prefixes = tokenize_to_ids(tokenizer, prefixes)
    for start, end in itertools.pairwise([*starts, len(prefixes)]):
        known = (ids for ids in reversed(ids_of_prefixes[start:end]) if len(ids) and tokenizer.unk_id not in ids)
        found.update(next(known, ()))
    return found


def trim_checkpoint(checkpoint: Checkpoint, vocabulary: Sequence[str]) -> Checkpoint:
    """Return a checkpoint with a part of its tokens, and with these tokens' rows of every weight that has one each.

    Args:
        checkpoint: a checkpoint with a vocabulary.
        vocabulary: the tokens to keep. If these are all, the checkpoint is returned as it is.
    """
    settings = checkpoint.tokenizer_settings
    if tuple(vocabulary) == tuple(settings["vocabulary"]):
        return checkpoint
    ids = {token: token_id for token_id, token in enumerate(settings["vocabulary"])}
    trimmed = _select_rows(checkpoint, np.array([ids[token] for token in vocabulary]))
    return dataclasses.replace(trimmed, read_tokenizer=lambda: {**settings, "vocabulary": tuple(vocabulary)})


def _select_rows(checkpoint: Checkpoint, rows: np.ndarray) -> Checkpoint:
    """Return a checkpoint, and an ELECTRA checkpoint's generator, with these rows of the vocabulary's weights."""
    names = list_weights(checkpoint.model, checkpoint.config, pooler=checkpoint.has_pooler)
    weights = dict(checkpoint.weights)
    for name in names:
        if "V" in name.axes and name.ours in weights:
            weights[name.ours] = _select_rows_of_weight(weights[name.ours], name.axes.index("V"), rows)
    settings = dict(checkpoint.settings)
    if settings.get("generator_config") is not None:
        settings["generator_config"] = dataclasses.replace(settings["generator_config"], vocabulary_size=len(rows))
    return dataclasses.replace(
        checkpoint,
        config=dataclasses.replace(checkpoint.config, vocabulary_size=len(rows)),
        settings=settings,
        weights=weights,
        generator=checkpoint.generator and _select_rows(checkpoint.generator, rows),
    )


def _select_rows_of_weight(weight: StoredWeight, axis: int, rows: np.ndarray) -> StoredWeight:
    shape = (*weight.shape[:axis], len(rows), *weight.shape[axis + 1 :])
    return dataclasses.replace(weight, shape=shape, read=lambda: np.take(weight.read(), rows, axis=axis))


def tokenize_to_ids(tokenizer: BertTokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Return the token ids of each text."""
    if not texts:
        return []
    tokens = tokenizer.tokenize_to_arrays(texts)
    return np.split(tokens.token_ids, tokens.row_splits[1:-1])
