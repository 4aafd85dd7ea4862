"""What readers of labelled examples receive and return, and labels that a task does not know."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.task import Task
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source, describe_place, quote_names


class TrainingInputs(NamedTuple):
    """Where the examples come from, and how they are read; `dev` is None if they are held out of `train`."""

    train: Source
    dev: Source | None
    options: FileOptions
    settings: dict
    bad: BadExamples
    spell: Spell


class TaskExamples(NamedTuple):
    """A task with its training examples, held-out examples (None: not given) and columns (None: no table)."""

    task: Task
    train: list
    dev: list | None
    columns: Columns | None = None


class ScoringInputs(NamedTuple):
    """A task and its labelled examples: where they come from, and how they are read; see `read_scoring_data`."""

    task: Task
    source: Source
    options: FileOptions
    bad: BadExamples
    spell: Spell
    is_training: bool


def keep_known(
    examples: Sequence,
    get_labels: Callable[[object], Iterable[str]],
    known: Iterable[str],
    source: Source,
    bad: BadExamples,
    explain: Callable[[str, object], str],
) -> list:
    """Return the examples whose labels are all known, and count the others as invalid.

    Args:
        examples: examples with a `line`.
        get_labels: returns the labels of an example.
        known: the labels of the task.
        source: the source of the examples, for messages.
        bad: collects the invalid examples.
        explain: returns the message about an unknown label of an example.
    """
    known, valid = set(known), []
    for example in examples:
        unknown = next((label for label in get_labels(example) if label not in known), None)
        if unknown is None:
            valid.append(example)
        else:
            bad.add(InputError(f"{describe_place(source, example.line)}: {explain(unknown, example)}"))
    return valid


def keep_known_to_score(
    inputs: ScoringInputs, examples: list, get_labels: Callable[[object], Iterable[str]], known: Iterable[str]
) -> list:
    """Return the examples whose labels are all known; see `keep_known`."""

    def explain(label: str, _: object) -> str:
        return (
            f"the label {quote(label)} is not one of the model's, which are {quote_names(inputs.task.labels)}: correct "
            "the label, or score with a model that was trained with it"
        )

    return keep_known(examples, get_labels, known, inputs.source, inputs.bad, explain)


def check_any_left(examples: Sequence, source: Source, bad: BadExamples) -> None:
    """Raise `InputError` for invalid examples, unless they are skipped and others are left."""
    bad.check()
    bad.check_any_left(len(examples), source)
