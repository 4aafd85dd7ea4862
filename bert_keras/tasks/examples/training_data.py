"""Examples to learn from and to score on, and the task that they are of."""

import dataclasses
from collections.abc import Callable, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checks import check_integer, format_names, quote
from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import detect_scheme, is_entity_tag
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.listed_examples import Source, describe_place
from bert_keras.pipelines.readers.tables.table_rows import quote_names
from bert_keras.pipelines.readers.words.tagged_sentences import OUTSIDE, TaggedSentence
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task, check_choice
from bert_keras.tasks.examples.data_warnings import data_warnings
from bert_keras.tasks.examples.file_options import FileOptions, resolve_data
from bert_keras.tasks.examples.held_out import HeldOut, hold_out
from bert_keras.tasks.examples.labelled_files import (
    convert_to_iob2,
    get_labels,
    keep_known,
    read_pairs,
    read_sentences,
    read_texts,
)
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification, TextExample
from bert_keras.tasks.token_classification import TokenClassification

# arguments of the tasks that a user may give
TASK_SETTINGS = (
    *("problem", "class_weights", "labelled_tokens", "max_answer_length", "objective"),
    *("max_sequence_length", "window_overlap"),
)
_OF_EMBEDDERS = ("pooling", "normalize", "include_prompt", "prompts", "default_prompt_name")  # what they keep
_NUM_SHOWN = 3


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """Examples of a task that is known.

    Attributes:
        task: the task.
        train: the examples to learn from.
        dev: the held-out examples.
        columns: the columns of the table that was read; None: it was no table.
        held_out: how `dev` was held out of the training examples; None: it has a source of its own.
        bad: the bad examples that were skipped.
        warnings: what is probably wrong with the data.
    """

    task: Task
    train: list
    dev: list
    columns: Columns | None
    held_out: HeldOut | None
    bad: BadExamples
    warnings: Sequence[str]


def read_to_learn(name: str, train: object, dev: object, options: FileOptions, **settings) -> tuple[Task, list, list]:
    """Reads the examples to learn from and those to score on, and makes the task that they are of.

    Args: as `read_training_data`.

    Raises:
        InputError: a file cannot be used, or the two do not fit together.
    """
    data = read_training_data(name, train, dev, options, **settings)
    return data.task, data.train, data.dev


def read_training_data(
    name: str,
    train: object,
    dev: object | None,
    options: FileOptions,
    *,
    dev_share: float = DEV_SHARE,
    seed: int = 0,
    on_error: str = "stop",
    **settings,
) -> TrainingData:
    """Read the examples to learn from and those to score on, and make the task that they are of.

    Args:
        name: the task's: "classify", "tag", "answer" or "embed".
        train: a path; or a list of dicts such as `{"text": ..., "label": ...}`, a list of (text, label) pairs, or a
            data frame.
        dev: likewise; None: a share of `train` is held out, see `hold_out`.
        options: how files are read, and which columns data in memory have.
        dev_share: how much is held out, from 0 to 1.
        seed: decides what is held out.
        on_error: at bad examples "stop", when all have been counted, or "skip" them.
        **settings: arguments of the task; what the data say themselves (labels, for example) is added.

    Raises:
        InputError: a file cannot be used, examples are bad, or the two do not fit together.
    """
    check_task_name(name)
    check_choice("on_error", on_error, ("stop", "skip"))
    pair = ("text1", "text2") if settings.get("objective") == "contrastive" else ("text", "label")
    train_source = resolve_data(train, "train", name, options, pair=pair)
    dev_source = None if dev is None else resolve_data(dev, "dev", name, options)
    bad, held_out = BadExamples(skip=on_error == "skip"), None
    task, learnt, scored, columns = _LEARNING[name](train_source, dev_source, options, settings, bad)
    if scored is None:
        learnt, scored, held_out = hold_out(learnt, train_source, share=dev_share, seed=seed)
    warnings = data_warnings(
        task,
        learnt,
        scored,
        train_source,
        dev_source,
        held_out=held_out,
        named_columns=options.columns is not None,
    )
    return TrainingData(task, learnt, scored, columns, held_out, bad, warnings)


def check_task_name(name: str) -> None:
    """Raise `InputError` if there is no such task."""
    check_choice("the task", name, tuple(_LEARNING))


def read_training_data_for_checkpoint(
    checkpoint: Checkpoint, name: str, train: object, dev: object | None, options: FileOptions, **settings
) -> TrainingData:
    """Read examples as `read_training_data` does, for a task that the checkpoint can read and goes on with.

    Args:
        checkpoint: what `read_checkpoint` returned. Rows are no longer than it reads, and an embedder goes on pooling
            as it did.
        name, train, dev, options, **settings: as `read_training_data` has them; for an embedder also `prompt`, the name
            of the prompt that stands before each text, "": none.

    Raises:
        InputError: as `read_training_data`.
    """
    if name == "embed" and checkpoint.model == "BertEmbedder":
        settings |= {key: value for key, value in checkpoint.settings.items() if key in _OF_EMBEDDERS}
    if (prompt := settings.pop("prompt", None)) is not None and name == "embed":
        settings |= {"default_prompt_name": prompt or None, "prompts": settings.get("prompts", {})}
    length, overlap = settings.pop("max_sequence_length", None), settings.get("window_overlap")
    if length is not None:
        length = check_integer("max_sequence_length", length)
    data = read_training_data(name, train, dev, options, **settings)
    task = data.task
    longest = checkpoint.config.max_sequence_length
    task = task.with_length(min(task.max_sequence_length if length is None else length, longest))
    if overlap is not None:
        task = dataclasses.replace(task, window_overlap=overlap)
    return dataclasses.replace(data, task=task)


def _learn_to_classify(train: Source, dev: Source | None, options: FileOptions, settings: dict, bad: BadExamples):
    problem = settings.get("problem", "single_label")
    learnt, columns = read_texts(train, options, problem, bad)
    scored = None if dev is None else read_texts(dev, options.with_columns(columns), problem, bad)[0]
    bad.check()
    classes = [] if problem == "regression" else _classes(learnt, train)
    if classes and dev is not None:
        scored = keep_known(scored, get_labels, classes, dev, bad, lambda name, _: _unknown(name, train, classes))
        _check_left(scored, dev, bad)
    task = TextClassification(**settings, labels=tuple(classes), has_pairs=columns.second_text is not None)
    return task, learnt, scored, columns


def _learn_to_tag(train: Source, dev: Source | None, options: FileOptions, settings: dict, bad: BadExamples):
    learnt = read_sentences(train, options, bad)
    scored = None if dev is None else read_sentences(dev, options, bad)
    bad.check()
    scheme = detect_scheme([sentence.tags for sentence in learnt])
    if scheme == "none":
        _check_no_entities(learnt, train)
    learnt = convert_to_iob2(learnt, scheme, train, bad)
    scored = None if dev is None else convert_to_iob2(scored, scheme, dev, bad)
    _check_left(learnt, train, bad)
    tags = _tags(learnt, train)
    if dev is not None:
        scored = keep_known(
            scored, lambda one: one.tags, tags, dev, bad, lambda tag, one: _unknown_tag(tag, one, train, tags)
        )
        _check_left(scored, dev, bad)
    task = TokenClassification(**settings, labels=tuple(tags), scheme="none" if scheme == "none" else "IOB2")
    return task, learnt, scored, None


def _learn_to_answer(train: Source, dev: Source | None, options: FileOptions, settings: dict, bad: BadExamples):
    learnt = read_questions(train, format=options.format, bad=bad)
    scored = None if dev is None else read_questions(dev, format=options.format, bad=bad)
    bad.check()
    allows_null = any(question.is_impossible for question in learnt)
    if not allows_null and (impossible := next((one for one in scored or () if one.is_impossible), None)):
        raise InputError(
            f"{dev}, {impossible.place}: the question has no answer, and all of {train} have one; expected questions "
            "of one kind: train with some that have none, or take them out"
        )
    return QuestionAnswering(**settings, allows_null=allows_null), learnt, scored, None


def _learn_to_embed(train: Source, dev: Source | None, options: FileOptions, settings: dict, bad: BadExamples):
    objective = settings.get("objective", "regression")
    if dev is None and objective == "contrastive":
        raise InputError(
            "a contrastive training is scored on pairs with scores, which its own examples do not have: name some "
            "with --dev"
        )
    learnt, columns = read_pairs(train, options, objective, bad)
    scored = None if dev is None else read_pairs(dev, options, "regression", bad)[0]
    bad.check()
    scores = [example.label for example in [*learnt, *(scored or ())] if example.label is not None]
    task = SentenceEmbedding(**settings, highest_score=max(1.0, *scores))
    return task, learnt, scored, columns


_LEARNING: dict[str, Callable] = {
    "classify": _learn_to_classify,
    "tag": _learn_to_tag,
    "answer": _learn_to_answer,
    "embed": _learn_to_embed,
}


def _classes(examples: Sequence[TextExample], source: Source) -> list[str]:
    """Return the labels of training examples in the order of their names; those are the classes.

    Raises:
        InputError: there is nothing to tell apart: one label, or none where there may be several.
    """
    classes = sorted({label for example in examples for label in get_labels(example)})
    several = not isinstance(examples[0].label, str)
    if several and not classes:
        raise InputError(f"{source}: no text has a label; expected one or more: check the column of labels")
    if not several and len(classes) < 2:
        raise InputError(
            f"{source}: every text has the label {quote(classes[0])}; expected two labels or more to tell apart: "
            "add texts of another label, or name another column"
        )
    return classes


def _unknown(label: str, train: Source, classes: Sequence[str]) -> str:
    known = quote_names(classes[:_NUM_SHOWN]) + (", ..." if len(classes) > _NUM_SHOWN else "")
    return (
        f"the label {quote(label)} does not occur in {train}, which has {known}; expected labels that can be learned: "
        "correct it, or add texts of the label to the training examples"
    )


def _tags(sentences: Sequence[TaggedSentence], source: Source) -> list[str]:
    """Return the tags of training sentences, sorted, "O" first if it is one.

    Raises:
        InputError: there is only one tag.
    """
    tags = sorted({tag for sentence in sentences for tag in sentence.tags}, key=lambda tag: (tag != OUTSIDE, tag))
    if len(tags) < 2:
        raise InputError(
            f"{source}: every word has the tag {quote(tags[0])}; expected two tags or more: "
            "name the column of the tags with --tag-column"
        )
    return tags


def _unknown_tag(tag: str, sentence: TaggedSentence, train: Source, tags: Sequence[str]) -> str:
    word = sentence.words[sentence.tags.index(tag)]
    return (
        f"the word {quote(word)} has the tag {quote(tag)}, which does not occur in {train}; its tags are "
        f"{format_names(tags, most=20)}: correct the tag, or add sentences with it there"
    )


def _check_no_entities(sentences: Sequence[TaggedSentence], source: Source) -> None:
    """Raises `InputError` if some tags mark entities, and some are neither that nor O: a slip would pass unseen."""
    lines = {tag: sentence.line for sentence in reversed(sentences) for tag in sentence.tags}
    marking = {tag for tag in lines if tag[:2] in ("B-", "I-") and tag[2:]}
    stray = {tag: line for tag, line in lines.items() if not is_entity_tag(tag)}
    if {tag[0] for tag in marking} == {"B", "I"} and "O" in lines:
        tag, line = min(stray.items(), key=lambda item: item[1])
        raise InputError(
            f"{describe_place(source, line)}: the tag {quote(tag)} marks no entity, and others do, such as "
            f"{quote(min(marking))}; expected O, or a letter and a label: correct the tag, or name another column "
            "with --tag-column"
        )


def _check_left(examples: Sequence, source: Source, bad: BadExamples) -> None:
    """Raise `InputError` if an example is bad and none may be, or if none is left."""
    bad.check()
    bad.check_any_left(len(examples), source, "examples")
