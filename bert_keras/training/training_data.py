"""Read training and held-out examples, and create their task."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checks import check_integer
from bert_keras.heads.examples.data_warnings import find_data_warnings
from bert_keras.heads.examples.file_options import FileOptions, resolve_data
from bert_keras.heads.examples.held_out import HeldOut, hold_out
from bert_keras.heads.examples.labelled_files import TrainingInputs
from bert_keras.heads.examples.option_checks import DEV_SHARE
from bert_keras.heads.known_heads import get_task_head, list_finetuned_heads
from bert_keras.heads.task import Task, check_choice
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns

# arguments of tasks that a user may set
TASK_SETTINGS = (
    *("problem", "class_weights", "labelled_tokens", "max_answer_length", "objective"),
    *("max_sequence_length", "window_overlap"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """Training and held-out examples of a task.

    Attributes:
        task: the task.
        train: the training examples.
        dev: the held-out examples.
        columns: the columns of the table that was read; None: it was no table.
        held_out: how `dev` was held out of the training examples; None: `dev` was given.
        bad: the invalid examples that were skipped.
        warnings: likely mistakes in the data, one sentence each.
        reading: how the examples were read, in plain values keyed by the arguments of `bk.finetune`; data in memory and
            defaults are left out.
    """

    task: Task
    train: list
    dev: list
    columns: Columns | None
    held_out: HeldOut | None
    bad: BadExamples
    warnings: Sequence[str]
    reading: Mapping[str, object] = dataclasses.field(default_factory=dict)


def read_training_data(
    name: str,
    train: object,
    dev: object | None,
    options: FileOptions,
    *,
    dev_share: float = DEV_SHARE,
    seed: int = 0,
    on_error: str = "stop",
    spell: Spell = spell_flag,
    **settings: object,
) -> TrainingData:
    """Read training and held-out examples, and create their task.

    Args:
        name: the task, as in `finetune --task`.
        train: a path; or a list of dicts such as `{"text": ..., "label": ...}`, a list of (text, label) pairs, or a
            data frame.
        dev: the held-out examples, in the same forms; None: hold out a share of `train`, see `hold_out`.
        options: how files are read; their columns also apply to data in memory.
        dev_share: the share to hold out, between 0 and 1.
        seed: selects the held-out examples.
        on_error: "stop" reads all examples and then reports invalid ones; "skip" skips them.
        spell: spells options in messages.
        **settings: arguments of the task; those that follow from the data (such as labels) are added.

    Returns:
        The task and its examples.

    Raises:
        InputError: a file cannot be used, examples are invalid, or training and held-out examples do not match.
    """
    check_task_name(name)
    check_choice("on_error", on_error, ("stop", "skip"))
    head = get_task_head(name)
    fields = head.load("task").name_fields(settings)
    train_source = resolve_data(train, "train", name, options, fields=fields, spell=spell)
    dev_source = None if dev is None else resolve_data(dev, "dev", name, options, spell=spell)
    bad, held_out = BadExamples(skip=on_error == "skip", spell=spell), None
    task, train, dev, columns = head.load("training_reader")(
        TrainingInputs(train_source, dev_source, options, settings, bad, spell)
    )
    if dev is None:
        train, dev, held_out = hold_out(train, train_source, share=dev_share, seed=seed, spell=spell)
    warnings = find_data_warnings(
        task,
        train,
        dev,
        train_source,
        dev_source,
        held_out=held_out,
        has_named_columns=options.columns is not None,
        spell=spell,
    )
    return TrainingData(task, train, dev, columns, held_out, bad, warnings)


def check_task_name(name: str) -> None:
    """Raise `InputError` unless there is such a task."""
    check_choice("the task", name, [head.name for head in list_finetuned_heads()])


def read_training_data_for_checkpoint(
    checkpoint: Checkpoint, name: str, train: object, dev: object | None, options: FileOptions, **settings: object
) -> TrainingData:
    """Read examples as `read_training_data` does, for a task that fits a checkpoint.

    Sequences are never longer than the checkpoint's model accepts, and an embedder keeps its pooling and prompts.

    Args:
        checkpoint: what `read_checkpoint` returned.
        name, train, dev, options, **settings: as in `read_training_data`; for an embedder also `prompt`, the name of
            the prompt before each text, "": none.

    Returns:
        The task and its examples.

    Raises:
        InputError: as in `read_training_data`.
    """
    reading = describe_reading(name, train, dev, options, settings)
    head = get_task_head(name)
    if checkpoint.model == head.model_name:
        settings |= {key: value for key, value in checkpoint.settings.items() if key in head.kept_settings}
    if (prompt := settings.pop("prompt", None)) is not None and "prompt" in head.options:
        settings |= {"default_prompt_name": prompt or None, "prompts": settings.get("prompts", {})}
    length, overlap = settings.pop("max_sequence_length", None), settings.get("window_overlap")
    if length is not None:
        length = check_integer("max_sequence_length", length)
    data = read_training_data(name, train, dev, options, **settings)
    length = data.task.max_sequence_length if length is None else length
    task = data.task.with_length(min(length, checkpoint.config.max_sequence_length))
    if overlap is not None:
        task = dataclasses.replace(task, window_overlap=overlap)
    return dataclasses.replace(data, task=task, reading=reading)


def describe_reading(
    name: str, train: object, dev: object, options: FileOptions, settings: Mapping[str, object]
) -> dict[str, object]:
    """Return how examples are read, see `TrainingData.reading`."""
    paths = {"train": train, "dev": dev}
    usual, given = dataclasses.asdict(FileOptions()), dataclasses.asdict(options)
    reading = {
        "task": name,
        **{role: os.fspath(path) for role, path in paths.items() if isinstance(path, str | os.PathLike)},
        **{key: settings[key] for key in ("on_error", "prompt", "dev_share") if settings.get(key) is not None},
        **{key: value for key, value in given.items() if value != usual[key]},
    }
    if dev is not None:
        reading.pop("dev_share", None)
    return reading
