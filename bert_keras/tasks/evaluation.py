"""`bk.evaluate`: how good a fine-tuned checkpoint is on labelled examples."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.tasks.base import check_choice
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.option_checks import check_keyword_arguments, check_options_of_task
from bert_keras.tasks.examples.python_messages import arguments_in_messages
from bert_keras.tasks.examples.scoring_data import read_scoring_data
from bert_keras.tasks.inference import SequenceRunner
from bert_keras.tasks.predictor import Predictor
from bert_keras.tasks.task_loading import read_checkpoint_task

_COLUMNS = tuple(field.name for field in dataclasses.fields(FileOptions))


@arguments_in_messages
def evaluate(
    checkpoint: str | os.PathLike | Checkpoint,
    data: object,
    *,
    on_error: str = "stop",
    max_sequence_length: int | None = None,
    window_overlap: int | None = None,
    prompt: str | None = None,
    **columns,
) -> dict[str, float]:
    """Score a fine-tuned checkpoint on labelled examples, as `bert-keras evaluate` does.

    Args:
        checkpoint: any folder that `load` reads, with a head and a vocabulary.
        data: a path; or a list of dicts such as `{"text": ..., "label": ...}`, a list of (text, label) pairs, or a
            data frame.
        on_error: at bad examples "stop", with the number of them and the first ones, or "skip" them.
        max_sequence_length, window_overlap: of texts; None: as it was trained.
        prompt: of an embedder: the name of the prompt before each text; "": none; None: the model's own default.
        **columns: fields of `FileOptions` (`text_column`, `label_column`, `delimiter`, ...).

    Returns:
        The scores, keyed by name.

    Raises:
        InputError: the checkpoint answers nothing, or the data cannot be used.

    Example:
        >>> # bk.evaluate("out", [("a fine film", "good"), ("a waste of time", "bad")])["accuracy"]
    """
    lengths = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    check_keyword_arguments(columns, ("on_error", *lengths, "prompt", *_COLUMNS), "evaluate")
    check_choice("on_error", on_error, ("stop", "skip"))
    checkpoint = read_checkpoint(checkpoint)
    task = read_checkpoint_task(checkpoint, max_sequence_length=max_sequence_length)
    given = {**columns, "window_overlap": window_overlap, "prompt": prompt}
    check_options_of_task(given, task.name, problem=getattr(task, "problem", "single_label"))
    bad = BadExamples(skip=on_error == "skip")
    examples = read_scoring_data(task, data, FileOptions(**columns), bad)
    predictor = Predictor.from_checkpoint(checkpoint, **lengths)
    if prompt is not None:
        predictor = predictor.with_prompt(prompt)
    return predictor.task.score(answer_all(predictor, examples), examples)


def answer_all(
    predictor: Predictor, examples: Sequence, progress: Callable[..., None] | None = None
) -> list[Mapping[str, object]]:
    """Answer all examples at once, as fine-tuning does: the same batches, and so the same scores to the last digit.

    Args:
        predictor: answers them.
        examples: examples of its task.
        progress: told how many rows are done, and of how many.
    """
    task = predictor.task
    rows = task.encode(predictor.tokenizer, examples)
    run_rows = SequenceRunner(predictor.model, is_token_level=task.is_token_level)
    outputs = run_rows(rows) if progress is None else run_rows(rows, progress)
    return task.decode(rows, outputs, examples)
