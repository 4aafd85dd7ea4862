"""`bk.evaluate`: score a fine-tuned checkpoint on labelled examples."""

import dataclasses
import os

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.task_loading import read_checkpoint_task
from bert_keras.engines.predictor import Predictor
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.option_checks import check_keyword_arguments, check_options_of_task
from bert_keras.heads.examples.scoring_data import read_scoring_data
from bert_keras.heads.task import check_choice
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import spell_argument

_COLUMNS = tuple(field.name for field in dataclasses.fields(FileOptions))


def evaluate(
    checkpoint: str | os.PathLike | Checkpoint,
    data: object,
    *,
    on_error: str = "stop",
    max_sequence_length: int | None = None,
    window_overlap: int | None = None,
    prompt: str | None = None,
    **columns: object,
) -> dict[str, float]:
    """Score a fine-tuned checkpoint on labelled examples, as `bert-keras evaluate` does.

    Args:
        checkpoint: any folder that `bk.load` reads, with a task head and a vocabulary.
        data: a path; or a list of dicts such as `{"text": ..., "label": ...}`, a list of (text, label) pairs, or a
            data frame.
        on_error: "stop" reads all examples and then reports the number of invalid ones and the first errors; "skip"
            skips them.
        max_sequence_length: maximum length of sequences in tokens; None: as in fine-tuning.
        window_overlap: number of tokens that the windows of a long text share; None: as in fine-tuning.
        prompt: for an embedder, the name of the prompt before each text; "": no prompt; None: the model's default.
        **columns: fields of `FileOptions` (`text_column`, `label_column`, `delimiter`, ...).

    Returns:
        The scores, keyed by name: for classification `accuracy`, `macro_f1`, `loss` and others.

    Raises:
        InputError: the checkpoint has no task head, or the data cannot be used.

    Example:
        >>> examples = [("The with statement wraps a block.", "language"), ("Open a socket.", "network")]
        >>> list(bk.evaluate("demo/classifier", examples))
        ['accuracy', 'macro_f1', 'micro_f1', 'matthews', 'loss']
    """
    lengths = {"max_sequence_length": max_sequence_length, "window_overlap": window_overlap}
    check_keyword_arguments(columns, ("on_error", *lengths, "prompt", *_COLUMNS), "evaluate")
    check_choice("on_error", on_error, ("stop", "skip"))
    checkpoint = read_checkpoint(checkpoint)
    task = read_checkpoint_task(checkpoint, max_sequence_length=max_sequence_length)
    given = {**columns, "window_overlap": window_overlap, "prompt": prompt}
    check_options_of_task(given, task.name, problem=task.problem)
    bad = BadExamples(skip=on_error == "skip", spell=spell_argument)
    examples = read_scoring_data(task, data, FileOptions(**columns), bad, spell=spell_argument)
    predictor = Predictor.from_checkpoint(checkpoint, **lengths)
    if prompt is not None:
        predictor = predictor.with_prompt(prompt)
    return predictor.task.score(predictor.answer(examples), examples)
