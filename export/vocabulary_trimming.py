"""Compare a checkpoint with a trimmed vocabulary with the whole one, and report which tokens are gone."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.checkpoints.kept_tokens import tokenize_to_ids
from bert_keras.checks import quote
from bert_keras.errors import ParityError
from bert_keras.export.parity.probe_inputs import IdSequence
from bert_keras.export.parity.reference import Outputs, Reference
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_MAX_CHECKED_TOKENS = 64  # of each text; base takes 1.2 ms per token
_TOLERANCE = 1e-5  # of an output, relative to its largest value if that is above 1
_TRIMMED = -1  # the new id of a token that is not kept


def is_trimmed_vocabulary(vocabulary: Sequence[str], tokenizer: BertTokenizer) -> bool:
    """Return whether a vocabulary is a part of a tokenizer's, in its order, with all its special and added tokens."""
    remaining = iter(tokenizer.vocabulary)
    is_part = len(vocabulary) < tokenizer.vocabulary_size and all(token in remaining for token in vocabulary)
    return is_part and {*tokenizer.special_tokens, *tokenizer.added_tokens} <= {*vocabulary}


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
    before, after = (tokenize_to_ids(reference.tokenizer, texts) for reference in (whole, trimmed))
    for text, ids, kept_ids in zip(texts, before, after, strict=True):
        if not np.array_equal(new_ids[ids], kept_ids):
            raise ParityError(f"the trimmed vocabulary splits {quote(text)} into other tokens; nothing was published")
        length = min(_MAX_CHECKED_TOKENS, whole.config.max_sequence_length) - 2
        expected, got = _compute_outputs(whole, ids[:length]), _compute_outputs(trimmed, kept_ids[:length])
        if different := _find_different_output(expected, got, rows):
            raise ParityError(
                f"the model with the trimmed vocabulary has other {different} for {quote(text)} than the checkpoint; "
                "nothing was published"
            )


def _compute_outputs(reference: Reference, token_ids: np.ndarray) -> Outputs:
    ids = np.array([reference.tokenizer.cls_id, *token_ids, reference.tokenizer.sep_id], np.int32)
    return reference.compute_outputs(IdSequence(ids, np.zeros_like(ids)))


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


def count_changed_examples(whole: Reference, trimmed: Reference, examples: Sequence) -> int:
    """Count the examples of a task whose sequences have a token that was not kept, so that answers may change."""
    _, new_ids = _map_ids(whole.tokenizer, trimmed.tokenizer)
    before, after = (
        np.split(encoded.token_ids, encoded.row_splits[np.flatnonzero(np.diff(encoded.examples)) + 1])
        for encoded in (reference.task.encode(reference.tokenizer, examples) for reference in (whole, trimmed))
    )  # the token ids of each example in all its windows; with an embedder, those of each text
    owners = [number for number, example in enumerate(examples) for _ in range(whole.task.count_inputs(example))]
    changed = [not np.array_equal(new_ids[ids], kept_ids) for ids, kept_ids in zip(before, after, strict=True)]
    return len(set(itertools.compress(owners, changed)))


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
    sizes = [reference.model.count_params() for reference in (whole, trimmed)]
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
