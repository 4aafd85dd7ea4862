"""What `bk.pretrain` and `bk.finetune` add to a training while it runs: a progress bar, and a log for TensorBoard."""

import contextlib
import itertools
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.checks import quote
from bert_keras.display.progress_bar import ProgressBar, can_move, is_notebook
from bert_keras.engines.mask_filling import get_masked_lm, predict_tokens
from bert_keras.engines.masked_lm_scores import FIXED_MASKS
from bert_keras.errors import InputError
from bert_keras.extras import is_installed
from bert_keras.heads.fill_mask.task import find_top_tokens
from bert_keras.heads.task import Row, Task
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training.callbacks import HELD_OUT, ScoreListener, StepCounter, shorten_metric_name
from bert_keras.training.config.settings import flatten

Listener = Callable[[dict], None]
TRAIN, HELD_OUT_RUN = "train", "validation"  # the names that Keras's TensorBoard callback uses
_NOT_PLOTTED = ("step", "num_steps")
_LOG = logging.getLogger(__name__)
_COUNTER = itertools.count()
_MAX_EXAMPLES = 20
_MAX_CHARACTERS = 300
_NUM_SEQUENCES = 8  # of which masks are filled
_CONTEXT_TOKENS = 12  # that are shown on each side of a masked one


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
            begin, end = max(0, place - _CONTEXT_TOKENS), place + _CONTEXT_TOKENS + 1
            context = [tokenizer.vocabulary[token_id] for token_id in ids[begin:end] if token_id != tokenizer.pad_id]
            context[place - begin] = "[MASK]"
            text = " ".join(context).replace(" ##", "")
            tokens = [tokenizer.vocabulary[target], tokenizer.vocabulary[best]]
            rows.append((bool(best != target), [text, *tokens, f"{probability:.3f}"]))
    return _format_rows(["text", "token", "prediction", "probability"], rows)


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
        self._write_scalars(HELD_OUT_RUN if held_out else TRAIN, held_out or scalars, line["step"])

    def write_settings(self, settings: Mapping[str, object]) -> None:
        """Write settings for the HPARAMS tab; this needs the tensorboard package.

        Args:
            settings: values in nested tables; lists become text, and None is left out.
        """
        if not is_installed("tensorboard"):
            _LOG.warning("no settings for TensorBoard's HPARAMS tab: pip install 'bert-keras[tensorboard]'")
            return
        from tensorboard.plugins.hparams import api

        serialized = api.hparams_pb(list_hparams(settings)).SerializeToString()
        self._get_file("").write(tf.compat.v1.Summary.FromString(serialized).value, 0)

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Write the scores of the model that the training returns, which may be of an earlier epoch than the last."""
        finite = {f"final/{name}": float(one) for name, one in scores.items() if math.isfinite(one)}
        self._write_scalars("", finite, self.num_steps)

    def write_text(self, tag: str, text: str) -> None:
        """Write Markdown for the TEXT tab."""
        value = tf.compat.v1.Summary.Value(tag=tag, tensor=tf.make_tensor_proto([text]))
        value.metadata.plugin_data.plugin_name = "text"
        self._get_file("").write([value], self.num_steps)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _write_scalars(self, run: str, scalars: Mapping[str, float], step: int) -> None:
        value = tf.compat.v1.Summary.Value
        self._get_file(run).write([value(tag=tag, simple_value=number) for tag, number in scalars.items()], step)

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

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(tf.errors.OpError):  # reported when it was written
            if self._writer is not None:
                self._writer.close()

    def write(self, values: Sequence, step: int) -> None:
        """Write the values of a `Summary` message."""
        if self._has_failed:
            return
        try:
            if self._writer is None:
                self._open()
            self._write_event(step=step, summary=tf.compat.v1.Summary(value=values))
            self._writer.flush()
        except tf.errors.OpError as error:  # such as a full disk, which must not end a training
            self._has_failed = True
            _LOG.warning("no more values for TensorBoard in %s: %s", self._folder, error)

    def _open(self) -> None:
        tf.io.gfile.makedirs(self._folder)
        # TensorBoard finds event files by this name, and reads them in the order of their names: 000009 before 000010
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER):06}"
        self._writer = tf.io.TFRecordWriter(os.path.join(self._folder, name))
        self._write_event(file_version="brain.Event:2")
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write_event(step=self._first_step, session_log=start)

    def _write_event(self, **event: object) -> None:
        self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **event).SerializeToString())


def list_hparams(settings: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """Return the values of nested tables by dotted key, as types that the HPARAMS tab has."""
    given = {name: value for name, value in flatten(settings).items() if value is not None}
    return {name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in given.items()}


@contextlib.contextmanager
def track_training(
    callbacks: Sequence[keras.callbacks.Callback],
    listeners: Sequence[Listener],
    *,
    tensorboard: str | os.PathLike | None,
    verbose: bool | str,
    is_chief: bool,
    num_steps: int | None = None,
    num_seconds: float | None = None,
) -> Iterator[tuple[list[keras.callbacks.Callback], list[Listener], TensorBoardLog | None]]:
    """Show a progress bar and write for TensorBoard inside the block.

    Args:
        callbacks, listeners: those of the caller.
        tensorboard: folder for TensorBoard, or None.
        verbose: True = show the progress; False = do not; "auto" = only as a moving bar, in notebooks and terminals.
        is_chief: whether this process is the chief; other workers show and write nothing.
        num_steps, num_seconds: see `FitProgress`.

    Yields:
        The callbacks for `model.fit` and the listeners of the training log, with the progress bar and the log for
        TensorBoard; and this log, or None without a folder and for workers that are not the chief.

    Raises:
        InputError: `verbose` has another value.
    """
    check_verbose(verbose)
    has_bar = is_chief and (is_notebook() or can_move() if verbose == "auto" else verbose)
    with contextlib.ExitStack() as stack:
        bars = [stack.enter_context(FitProgress(num_steps, num_seconds=num_seconds))] if has_bar else []
        log = None
        if tensorboard is not None and is_chief:
            log = stack.enter_context(contextlib.closing(TensorBoardLog(tensorboard)))
        logs = [] if log is None else [log]
        yield [*bars, *callbacks, *logs], [*listeners, *logs], log


def check_verbose(verbose: bool | str) -> None:
    """Raise `InputError` unless `verbose` is True, False or "auto"."""
    if not isinstance(verbose, bool) and verbose != "auto":
        raise InputError(f'verbose is {quote(verbose)}; expected True, False or "auto": choose one of them')


class FitProgress(ScoreListener):
    """Callback that shows a training run as one bar over all epochs and phases. Use it as a context manager.

    When it comes after a `TrainingLog`, it also shows real tokens/s.

    Args:
        num_steps: optimizer steps of the whole run; None: those of the current `fit`.
        num_seconds: time limit of the run, when the clock ends it and the number of steps is unknown.
    """

    def __init__(self, num_steps: int | None, *, num_seconds: float | None = None):
        super().__init__()
        self._given_steps = self._total_steps = num_steps
        self._num_seconds = num_seconds
        self._is_total_known = num_steps is not None
        self._start: float | None = None
        self._first_tokens: tuple[float, int] | None = None  # time after the first step, and its number of tokens
        self._bar = (
            ProgressBar("training", "steps") if num_seconds is None else ProgressBar("training, seconds", unit=None)
        )

    def __enter__(self) -> "FitProgress":
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def print(self, text: str, *, event: str, **values: object) -> None:
        """Print a line above the bar, see `ProgressBar.print`."""
        self._bar.print(text, event=event, **values)

    def restart(self) -> None:
        """Count from zero again, for the next trial of a search."""
        self.num_steps, self._last_batch = 0, -1
        self._bar.restart()

    def start_at(self, num_steps: int) -> None:
        """Continue counting at the step that a run resumes from."""
        super().start_at(num_steps)
        self._bar.print(f"resuming from step {num_steps:,}", event="resume", step=num_steps)

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock; without a given total, count the steps of this `fit` once its first epoch is known."""
        self._start = self._start or time.monotonic()
        self._is_total_known = self._given_steps is not None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Restart the batch index, and compute the total of this `fit`, whose first epoch may not be 0."""
        super().on_epoch_begin(epoch, logs)
        if not self._is_total_known:
            self._total_steps = self.num_steps + self.params["steps"] * (self.params["epochs"] - epoch)
            self._is_total_known = True

    def on_scores(self, scores: dict[str, float]) -> None:
        """Print the scores on held-out data as one line."""
        when = "before the first step" if not self.num_steps else f"step {self.num_steps:,}"
        text = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        self._bar.print(f"{when}, held out: {text}", event="scores", step=self.num_steps, scores=scores)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Update the bar."""
        logs = logs or {}
        step = self.count(batch)
        throughput = self._measure_throughput(logs)
        names = [name for name in logs if name == "loss" or name.endswith("accuracy")]
        metrics = {shorten_metric_name(name): float(logs[name]) for name in names}
        parts = [f"{value:,.0f} {name}" for name, value in throughput.items()]
        note = "  ".join([*parts, *(f"{name} {value:.3f}" for name, value in metrics.items())])
        metrics = throughput | metrics
        if self._num_seconds is None:
            self._bar.update(step, self._total_steps, note, metrics)
        else:
            elapsed = min(int(time.monotonic() - self._start), int(self._num_seconds))
            total = max(int(self._num_seconds), 1)
            self._bar.update(elapsed, total, f"step {step:,}  {note}", {"step": step, **metrics})

    def _measure_throughput(self, logs: dict) -> dict[str, float]:
        if "tokens" not in logs:
            return {}
        now = time.monotonic()
        if self._first_tokens is None:  # the first step includes compilation, which would distort the rate
            self._first_tokens = (now, logs["tokens"])
            return {}
        first_time, first_tokens = self._first_tokens
        return {"tokens/s": (logs["tokens"] - first_tokens) / (now - first_time)}
