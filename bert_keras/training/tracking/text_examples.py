"""Examples with a model's answers, as tables in Markdown for TensorBoard's TEXT tab."""

import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Row, Task
from bert_keras.tasks.mask_filling import get_masked_lm, predict_tokens
from bert_keras.tasks.mask_filling_task import find_top_tokens
from bert_keras.tasks.masked_lm_scores import FIXED_MASKS

_MAX_EXAMPLES = 20
_MAX_CHARACTERS = 300
_NUM_SEQUENCES = 8  # of which masks are filled


def format_answers(task: Task, examples: Sequence, answers: Sequence[Mapping]) -> str:
    """Return a table of held-out examples with their labels and a model's answers, wrong ones first."""
    rows = [task.make_row(example, answer) for example, answer in zip(examples, answers, strict=True)]
    return _format_rows(["text", "label", "prediction", "probability"], rows)


def format_filled_masks(
    model: keras.Model, tokenizer: BertTokenizer, records: str | os.PathLike, *, split: str, seed: int
) -> str:
    """Return a table of masked tokens of records with a model's predictions, wrong ones first.

    Args:
        model: a model with a masked-LM head, or with a generator that has one.
        tokenizer: the tokenizer of the records.
        records: the records folder.
        split: "held_out" or "train".
        seed: seed of the masks.
    """
    options = {"split": split, "batch_size": _NUM_SEQUENCES, "seed": seed, "drop_remainder": False}
    batches = make_pretraining_batches(records, tokenizer, check_shards=False, epochs=1, **options, **FIXED_MASKS)
    features, labels = next(iter(batches))
    features = {name: value.numpy() for name, value in features.items()}
    is_masked = labels["mask_weights"].numpy() > 0
    positions = [row[mask] for row, mask in zip(features.pop("mask_positions"), is_masked, strict=True)]
    targets = [row[mask] for row, mask in zip(labels["mask_ids"].numpy(), is_masked, strict=True)]
    features.pop("pack_starts", None)
    rows: list[Row] = []
    for index, probabilities in enumerate(predict_tokens(get_masked_lm(model), tokenizer, features, positions)):
        ids = features["token_ids"][index]
        for place, target, [(best, probability)] in zip(
            positions[index], targets[index], find_top_tokens(probabilities, 1), strict=True
        ):
            tokens = [tokenizer.vocabulary[target], tokenizer.vocabulary[best]]
            rows.append((bool(best != target), [_show_context(ids, place, tokenizer), *tokens, f"{probability:.3f}"]))
    return _format_rows(["text", "token", "prediction", "probability"], rows)


def _show_context(ids: np.ndarray, place: int, tokenizer: BertTokenizer, width: int = 12) -> str:
    """Return the tokens around a masked position, with [MASK] in its place."""
    begin, end = max(0, place - width), place + width + 1
    tokens = [tokenizer.vocabulary[token_id] for token_id in ids[begin:end] if token_id != tokenizer.pad_id]
    tokens[place - begin] = "[MASK]"
    return " ".join(tokens).replace(" ##", "")


def _format_rows(headings: Sequence[str], rows: Sequence[Row]) -> str:
    """Format the rows with the largest errors as a table in Markdown that begins with a column for the error."""
    rows = sorted(rows, key=lambda row: -row[0])[:_MAX_EXAMPLES]  # stable
    is_number = any(isinstance(error, float) for error, _ in rows)
    first = [f"{error:.3f}" if is_number else "no" if error else "yes" for error, _ in rows]
    cells = [[_escape(cell) for cell in (mark, *row)] for mark, (_, row) in zip(first, rows, strict=True)]
    headings = ["error" if is_number else "correct", *headings]
    lines = [headings, ["---"] * len(headings), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _escape(text: object) -> str:
    """Shorten a text, so that it cannot add columns, rows or markup to a table."""
    text = " ".join(str(text).split())
    text = text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + " ..."
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text
