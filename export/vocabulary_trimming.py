"""Trim the vocabulary of a checkpoint to the tokens that given texts use.

`choose_tokens` reads the texts, `trim_checkpoint` makes the checkpoint with fewer tokens, and `check_equal_outputs`
compares the two.
"""

import dataclasses
import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.checks import quote
from bert_keras.errors import InputError, ParityError
from bert_keras.export.parity.probe_inputs import IdSequence
from bert_keras.export.parity.reference import Outputs, Reference
from bert_keras.pipelines.corpus.text_sources import TextSource, read_lines
from bert_keras.pipelines.text.graph.word_piece import fold_letters
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.token_classification import TokenClassification

_NUM_CHECKED = 100  # texts whose outputs are compared before and after trimming
_MAX_CHECKED_TOKENS = 64  # of each of them; base takes 1.2 ms per token
_TOLERANCE = 1e-5  # of an output, relative to its largest value if that is above 1
_TEXTS_PER_BATCH = 4096
_TRIMMED = -1  # the new id of a token that is not kept


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


def choose_tokens(reference: Reference, sources: Sequence[TextSource]) -> KeptTokens:
    """Choose the tokens that texts need.

    Kept are the tokens of the texts and of a task's prompts, all special and added tokens, and, so that other words can
    still be spelled, all tokens of a single character that is in ASCII or in the texts.

    Args:
        reference: the checkpoint.
        sources: files with one text per line.

    Raises:
        InputError: a file cannot be read, or the texts have no tokens.
    """
    tokenizer, unk_id = reference.tokenizer, reference.tokenizer.unk_id
    used, characters, unknown_words, first_texts, num_texts = set(), set(), set(), [], 0
    lines = filter(None, read_lines(sources))
    while texts := list(itertools.islice(lines, _TEXTS_PER_BATCH)):
        num_texts += len(texts)
        read = list(_list_readings(reference.task, texts))
        first_texts += read[: _NUM_CHECKED - len(first_texts)]
        characters.update(*texts)
        tokens = tokenizer.tokenize_to_arrays(read)
        used.update(np.unique(tokens.token_ids).tolist())
        with_unknown = np.unique(np.repeat(np.arange(len(read)), tokens.lengths)[tokens.token_ids == unk_id])
        unknown_words |= _find_unknown_words(tokenizer, [read[number] for number in with_unknown])
    if not used:
        names = ", ".join(map(str, sources)) or "an empty list"
        raise InputError(
            f"the texts to trim the vocabulary for, {names}, have no tokens; expected texts like those that the model "
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


def _list_readings(task: Task | None, texts: Sequence[str]) -> Iterator[str]:
    """Yield the forms in which a task tokenizes texts: with each prompt, or as words joined by spaces."""
    if isinstance(task, SentenceEmbedding):
        prompts = dict.fromkeys(["", task.prompt_text, *task.prompts.values()])
        yield from (prompt + text for text in texts for prompt in prompts)
    elif isinstance(task, TokenClassification):
        yield from (form for text in texts for form in (text, " ".join(task.make_example(text).words)))
    else:
        yield from texts


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
    ids_of_prefixes = _tokenize(tokenizer, prefixes)
    for start, end in itertools.pairwise([*starts, len(prefixes)]):
        known = (ids for ids in reversed(ids_of_prefixes[start:end]) if len(ids) and tokenizer.unk_id not in ids)
        found.update(next(known, ()))
    return found


def is_trimmed_vocabulary(vocabulary: Sequence[str], tokenizer: BertTokenizer) -> bool:
    """Return whether a vocabulary is a part of a tokenizer's, in its order, with all its special and added tokens."""
    remaining = iter(tokenizer.vocabulary)
    is_part = len(vocabulary) < tokenizer.vocabulary_size and all(token in remaining for token in vocabulary)
    return is_part and {*tokenizer.special_tokens, *tokenizer.added_tokens} <= {*vocabulary}


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
    names = list_weights(checkpoint.model, checkpoint.config, pooler=checkpoint.has_pooler, family=checkpoint.family)
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


def check_equal_outputs(whole: Reference, trimmed: Reference, texts: Sequence[str]) -> None:
    """Compare a trimmed checkpoint with the whole one on texts of which it kept all tokens.

    Args:
        whole: the checkpoint with its whole vocabulary.
        trimmed: the same with a part of it.
        texts: the texts.

    Raises:
        ParityError: a text gets other tokens, or the outputs differ.
    """
    rows, new_ids = _map_ids(whole.tokenizer, trimmed.tokenizer)
    before, after = (_tokenize(reference.tokenizer, texts) for reference in (whole, trimmed))
    for text, ids, kept_ids in zip(texts, before, after, strict=True):
        if not np.array_equal(new_ids[ids], kept_ids):
            raise ParityError(f"the trimmed vocabulary splits {quote(text)} into other tokens; nothing was published")
        length = min(_MAX_CHECKED_TOKENS, whole.config.max_sequence_length) - 2
        expected, got = (
            reference.compute_outputs(_make_sequence(reference.tokenizer, token_ids[:length]))
            for reference, token_ids in ((whole, ids), (trimmed, kept_ids))
        )
        if different := _find_different_output(expected, got, rows):
            raise ParityError(
                f"the model with the trimmed vocabulary has other {different} for {quote(text)} than the checkpoint; "
                "nothing was published"
            )


def _find_different_output(expected: Outputs, got: Outputs, rows: np.ndarray) -> str | None:
    """Return the name of an output that differs, if there is one. Logits of tokens are compared for the kept ones."""
    for name, values in expected.items():
        if values.shape != got[name].shape:  # (S, V): one logit per token of the vocabulary
            values = values[..., rows]
        difference = np.abs(values - got[name]).max(initial=0)
        if not difference <= _TOLERANCE * max(1.0, np.abs(values).max(initial=0)):  # also if it is NaN
            return name
    return None


def _map_ids(whole: BertTokenizer, trimmed: BertTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Return the old id of each kept token, and the new id of each token of the whole vocabulary."""
    old_ids = {token: token_id for token_id, token in enumerate(whole.vocabulary)}
    rows = np.array([old_ids[token] for token in trimmed.vocabulary])
    new_ids = np.full(whole.vocabulary_size, _TRIMMED, np.int32)
    new_ids[rows] = np.arange(len(rows))
    return rows, new_ids


def _tokenize(tokenizer: BertTokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Return the token ids of each text."""
    if not texts:
        return []
    tokens = tokenizer.tokenize_to_arrays(texts)
    return np.split(tokens.token_ids, tokens.row_splits[1:-1])


def _make_sequence(tokenizer: BertTokenizer, token_ids: np.ndarray) -> IdSequence:
    ids = np.concatenate([[tokenizer.cls_id], token_ids, [tokenizer.sep_id]]).astype(np.int32)
    return IdSequence(ids, np.zeros_like(ids))


def count_changed_examples(whole: Reference, trimmed: Reference, examples: Sequence) -> int:
    """Count the examples of a task whose sequences have a token that was not kept, so that answers may change."""
    _, new_ids = _map_ids(whole.tokenizer, trimmed.tokenizer)
    before, after = (_encode(reference, examples) for reference in (whole, trimmed))
    owners = range(len(examples))
    if isinstance(whole.task, SentenceEmbedding):  # which encodes the texts of a pair one by one
        owners = [
            n for n, example in enumerate(examples) for text in (example.text, example.second_text) if text is not None
        ]
    changed = [not np.array_equal(new_ids[ids], kept_ids) for ids, kept_ids in zip(before, after, strict=True)]
    return len(set(itertools.compress(owners, changed)))


def _encode(reference: Reference, examples: Sequence) -> list[np.ndarray]:
    """Return the token ids of each example in all its windows; with an embedder, those of each text."""
    encoded = reference.task.encode(reference.tokenizer, examples)
    first_sequences = np.flatnonzero(np.diff(encoded.examples)) + 1
    return np.split(encoded.token_ids, encoded.row_splits[first_sequences])


def build_trimming_report(whole: Reference, trimmed: Reference, num_texts: int, examples: Sequence | None) -> Mapping:
    """Return what an export reports about a trimmed vocabulary.

    Args:
        whole: the checkpoint with its whole vocabulary.
        trimmed: the same with a part of it.
        num_texts: the number of texts that the tokens were chosen for.
        examples: labelled examples of the task, if there are any.

    Returns:
        A dict with `num_tokens_before`, `num_tokens_after`, `num_texts`, and `removed_parameters`, the share of the
        model's parameters that was removed; with examples also their number, `num_examples`, and
        `num_changed_examples` (see `count_changed_examples`).
    """
    sizes = [_count_parameters(reference.model) for reference in (whole, trimmed)]
    report = {
        "num_tokens_before": whole.tokenizer.vocabulary_size,
        "num_tokens_after": trimmed.tokenizer.vocabulary_size,
        "num_texts": num_texts,
        "removed_parameters": round(1 - sizes[1] / sizes[0], 4),
    }
    if examples is not None:
        changed = count_changed_examples(whole, trimmed, examples)
        report |= {"num_examples": len(examples), "num_changed_examples": changed}
    return report


def _count_parameters(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.weights)
