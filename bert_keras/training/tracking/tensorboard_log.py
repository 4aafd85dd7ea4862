"""`TensorBoardLog`: the scalars, settings and examples of a training, for TensorBoard.

Its event files are written with TensorFlow's public records and messages: `tf.summary` needs the tensorboard package.
"""

import contextlib
import itertools
import logging
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.extras import is_installed
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Row, Task
from bert_keras.tasks.mask_filling import get_masked_lm, predict_tokens
from bert_keras.tasks.mask_filling_task import find_top_tokens
from bert_keras.tasks.masked_lm_scores import FIXED_MASKS
from bert_keras.training.callbacks import HELD_OUT, StepCounter
from bert_keras.training.config.settings import flatten

TRAIN, HELD_OUT_RUN = "train", "validation"  # the names that Keras's TensorBoard callback uses
_NOT_PLOTTED = ("step", "num_steps")
_LOG = logging.getLogger(__name__)


_COUNTER = itertools.count()


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


class TensorBoardLog(StepCounter):
    """Callback and listener of `TrainingLog` that writes a training for TensorBoard, over optimizer steps.

    The folder gets a run `train` and a run `validation` with the same tags, so that both are curves of one plot. The
    folder itself is a run with the settings and final scores (HPARAMS) and with examples (TEXT).

    Args:
        folder: the folder; created if it is missing. It may contain earlier files of the same training.
    """

    def __init__(self, folder: str | os.PathLike):
        super().__init__()
        self._folder = os.fspath(folder)
        self._files: dict[str, EventFile] = {}
        self._first_step = 0

    def start_at(self, num_steps: int) -> None:
        """Continue after the step that a training resumes from."""
        super().start_at(num_steps)
        self._first_step = num_steps + 1

    def __call__(self, line: Mapping[str, float]) -> None:
        """Write a line of the training log."""
        scalars = {name: float(value) for name, value in line.items() if name not in _NOT_PLOTTED}
        held_out = {name.removeprefix(HELD_OUT): value for name, value in scalars.items() if name.startswith(HELD_OUT)}
        self._get_file(HELD_OUT_RUN if held_out else TRAIN).write_scalars(held_out or scalars, line["step"])

    def write_settings(self, settings: Mapping[str, object]) -> None:
        """Write settings for the HPARAMS tab; this needs the tensorboard package.

        Args:
            settings: values in nested tables; lists become text, and None is left out.
        """
        if not is_installed("tensorboard"):
            _LOG.warning("no settings for TensorBoard's HPARAMS tab: pip install 'bert-keras[tensorboard]'")
            return
        from tensorboard.plugins.hparams import api

        self._get_file("").write_summary(api.hparams_pb(list_hparams(settings)).SerializeToString(), 0)

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Write the scores of the model that the training returns, which may be of an earlier epoch than the last."""
        finite = {f"final/{name}": float(one) for name, one in scores.items() if math.isfinite(one)}
        self._get_file("").write_scalars(finite, self.num_steps)

    def write_text(self, tag: str, text: str) -> None:
        """Write Markdown for the TEXT tab."""
        self._get_file("").write_text(tag, text, self.num_steps)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _get_file(self, run: str) -> "EventFile":
        if run not in self._files:
            first_step = self._first_step if run else 0  # the run of the folder itself is written as a whole
            self._files[run] = EventFile(os.path.join(self._folder, run) if run else self._folder, first_step)
        return self._files[run]


class EventFile:
    """Event file of a run, created when the first value is written.

    A run that is continued or repeated has several files. Each begins with a mark that makes TensorBoard drop the
    values of earlier files from `first_step` on, such as those after the backup from which a training resumes. A file
    that cannot be written is reported once, and the training continues.

    Args:
        folder: folder of the run.
        first_step: the first step that this file can contain.
    """

    def __init__(self, folder: str, first_step: int):
        self._folder, self._first_step = folder, first_step
        self._writer: tf.io.TFRecordWriter | None = None
        self._has_failed = False

    def write_scalars(self, scalars: dict[str, float], step: int) -> None:
        """Write numbers, keyed by tag."""
        value = tf.compat.v1.Summary.Value
        self._write_summary([value(tag=tag, simple_value=number) for tag, number in scalars.items()], step)

    def write_text(self, tag: str, text: str, step: int) -> None:
        """Write Markdown for the TEXT tab."""
        value = tf.compat.v1.Summary.Value(tag=tag, tensor=tf.make_tensor_proto([text]))
        value.metadata.plugin_data.plugin_name = "text"
        self._write_summary([value], step)

    def write_summary(self, serialized: bytes, step: int) -> None:
        """Write a serialized `Summary` message, such as those of TensorBoard's plugins."""
        self._write_summary(tf.compat.v1.Summary.FromString(serialized).value, step)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(tf.errors.OpError):  # reported when it was written
            if self._writer is not None:
                self._writer.close()

    def _write_summary(self, values: list, step: int) -> None:
        if self._has_failed:
            return
        try:
            if self._writer is None:
                self._open()
            self._write(step=step, summary=tf.compat.v1.Summary(value=values))
            self._writer.flush()
        except tf.errors.OpError as error:  # such as a full disk, which must not end a training
            self._has_failed = True
            _LOG.warning("no more values for TensorBoard in %s: %s", self._folder, error)

    def _open(self) -> None:
        tf.io.gfile.makedirs(self._folder)
        # TensorBoard finds event files by this name, and reads them in the order of their names: 000009 before 000010
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER):06}"
        self._writer = tf.io.TFRecordWriter(os.path.join(self._folder, name))
        self._write(file_version="brain.Event:2")
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write(step=self._first_step, session_log=start)

    def _write(self, **event: object) -> None:
        self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **event).SerializeToString())


def list_hparams(settings: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """Return the values of nested tables by dotted key, as types that the HPARAMS tab has."""
    given = {name: value for name, value in flatten(settings).items() if value is not None}
    return {name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in given.items()}
