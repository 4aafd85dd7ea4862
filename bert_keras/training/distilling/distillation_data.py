"""Read the examples of a distillation: labelled ones of a teacher's task, unlabelled ones, held-out ones."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.task_loading import read_checkpoint_task
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.examples.data_warnings import find_data_warnings
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.held_out import hold_out
from bert_keras.heads.examples.option_checks import DEV_SHARE
from bert_keras.heads.examples.prediction_data import read_prediction_data
from bert_keras.heads.examples.scoring_data import find_labelled_columns, read_scoring_data
from bert_keras.heads.task import Task, check_choice, convert_to_example
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.training.training_data import TrainingData, describe_reading

_MIN_PAIRS = 3  # with two, a rank correlation is 1 or -1


@dataclasses.dataclass(frozen=True, eq=False)
class DistillationData(TrainingData):
    """Examples of a distillation. The training examples with a label come first.

    Attributes:
        num_labelled: number of training examples with a label.
        num_joined_texts: number of unlabelled texts that were joined to examples.
        is_dev_labelled: whether the held-out examples have labels; if not, the teacher's answers are their labels.
        teacher: the teacher that was scored on the held-out examples; None: none was.
        teacher_scores: its scores.
        teacher_size: its number of parameters.
    """

    num_labelled: int = dataclasses.field(kw_only=True)
    num_joined_texts: int = 0
    is_dev_labelled: bool = True
    teacher: Checkpoint | None = None
    teacher_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    teacher_size: int = 0


def read_teacher_task(teacher: Checkpoint, **lengths: object) -> Task:
    """Return the task of a teacher.

    Args:
        teacher: its checkpoint.
        **lengths: `max_sequence_length` and `window_overlap`; default: as stored.

    Raises:
        InputError: it has no vocabulary or no head of a task.
    """
    check_has_vocabulary(teacher)
    return read_checkpoint_task(teacher, **lengths).as_teacher()


def check_task_of_teacher(task: Task, teacher_task: Task) -> None:
    """Raise `InputError` unless data for a task can be answered by a teacher of `teacher_task`."""
    tasks = [(one.name, one.problem, tuple(getattr(one, "labels", ()))) for one in (task, teacher_task)]
    if tasks[0] != tasks[1]:
        (name, problem, labels), (teacher_name, teacher_problem, teacher_labels) = tasks
        raise InputError(
            f"train is for the task {' '.join(filter(None, (name, problem)))} with the labels {quote(labels)}, and the "
            f"teacher for {' '.join(filter(None, (teacher_name, teacher_problem)))} with {quote(teacher_labels)}; "
            "expected the same: read the examples with read_distillation_data for the task of this teacher"
        )


def read_distillation_data(
    task: Task,
    train: object | None,
    dev: object | None,
    unlabelled: object | None,
    options: FileOptions,
    *,
    dev_share: float = DEV_SHARE,
    seed: int = 0,
    on_error: str = "stop",
    spell: Spell = spell_flag,
) -> DistillationData:
    """Read the examples of a distillation.

    Args:
        task: the task of the teacher; its labels are the only valid ones.
        train: labelled examples, see `read_training_data`; None: all training examples are unlabelled.
        dev: held-out examples; None: hold out a share of `train`, or of the unlabelled texts of an embedder.
        unlabelled: examples without labels: a path, or a list of texts, of pairs, or of lists of words.
        options: how files are read.
        dev_share: the share to hold out, between 0 and 1.
        seed: selects the held-out examples.
        on_error: "stop" reads all examples and then reports invalid ones; "skip" skips them.
        spell: spells options in messages.

    Returns:
        The examples. The unlabelled texts of an embedder are joined to pairs, in their order.

    Raises:
        InputError: there are no examples, or none to score on; a file cannot be used; a label is not the teacher's.
    """
    check_choice("on_error", on_error, ("stop", "skip"))
    _check_given(task, train, dev, unlabelled, spell)
    given = {"train": train, "dev": dev, "unlabelled": unlabelled}
    names = {role: one if isinstance(one, str | os.PathLike) else role for role, one in given.items()}
    bad = BadExamples(skip=on_error == "skip", spell=spell)
    labelled = [] if train is None else read_scoring_data(task, train, options, bad, spell=spell, is_training=True)
    held_out, is_dev_labelled, dev_examples = None, True, None
    if dev is not None:
        dev_examples = read_scoring_data(task, dev, options, bad, spell=spell)
    task = task.fit_labels([*labelled, *(dev_examples or ())])
    if dev is None and labelled:
        labelled, dev_examples, held_out = hold_out(labelled, names["train"], share=dev_share, seed=seed, spell=spell)
    others = [] if unlabelled is None else _read_unlabelled(task, unlabelled, options, bad)
    num_joined = 0
    if task.num_texts > 1:
        num_joined = sum(len(example.texts) == 1 for example in others)
        others = _join_texts(others, task.num_texts)
    if dev is None and not labelled:
        others, dev_examples, held_out = hold_out(others, names["unlabelled"], share=dev_share, seed=seed, spell=spell)
        _check_enough_pairs(dev_examples, names["unlabelled"], spell)
        is_dev_labelled = False
    warnings = ()
    if labelled:
        looked_at = {"held_out": held_out, "has_named_columns": options.columns is not None, "spell": spell}
        warnings = find_data_warnings(task, labelled, dev_examples, names["train"], names["dev"], **looked_at)
    reading = describe_reading(task.name, train, dev, options, {"on_error": on_error, "dev_share": dev_share})
    if isinstance(unlabelled, str | os.PathLike):
        reading["unlabelled"] = os.fspath(unlabelled)
    columns = None if not isinstance(train, str | os.PathLike) else find_labelled_columns(task, train, options)
    return DistillationData(
        task,
        [*labelled, *others],
        dev_examples,
        columns,
        held_out,
        bad,
        warnings,
        reading,
        num_labelled=len(labelled),
        num_joined_texts=num_joined,
        is_dev_labelled=is_dev_labelled,
    )


def _check_given(task: Task, train: object, dev: object, unlabelled: object, spell: Spell) -> None:
    if train is None and unlabelled is None:
        raise InputError(
            "no training examples were named; expected labelled or unlabelled ones: add "
            f"{spell('train')}, {spell('unlabelled')} or both"
        )
    if train is None and dev is None and task.num_texts == 1:
        raise InputError(
            f"there are no labels to score the task {task.name} with; expected some held-out examples with labels: add "
            f"{spell('dev')} or {spell('train')}"
        )


def _read_unlabelled(task: Task, given: object, options: FileOptions, bad: BadExamples) -> list:
    """Read examples without labels from a file or a list."""
    if isinstance(given, str | os.PathLike):
        read = list(bad.keep_good(read_prediction_data(task, given, options)))
        bad.check()
        bad.check_any_left(len(read), given)
        return [one.example for one in read]
    if not isinstance(given, Sequence) or not given:
        raise InputError(
            f"unlabelled is {quote(given)}; expected a path, or a list of one or more texts, pairs or lists of words: "
            "pass one of these"
        )
    return [convert_to_example(task, one) for one in given]


def _check_enough_pairs(held_out: Sequence[TextExample], source: object, spell: Spell) -> None:
    if len(held_out) < _MIN_PAIRS:
        raise InputError(
            f"{source}: {len(held_out)} pairs of texts are held out; expected {_MIN_PAIRS} or more, because the score "
            f"is a correlation: add texts, or pairs with scores as {spell('dev')}"
        )


def _join_texts(examples: Sequence[TextExample], number: int) -> list[TextExample]:
    """Join single texts to examples of `number` texts; the last ones, if too few are left, meet the first ones."""
    joined = [example for example in examples if len(example.texts) > 1]
    texts = [example.text for example in examples if len(example.texts) == 1]
    texts += texts[: -len(texts) % number]
    return [*joined, *(TextExample.of_texts(texts[start : start + number]) for start in range(0, len(texts), number))]
