"""Read training and held-out examples, and create their task."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checks import check_integer, format_names, quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_task_head, list_finetuned_heads
from bert_keras.metrics.tag_schemes import detect_scheme, is_entity_tag
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source, describe_place, quote_names
from bert_keras.pipelines.readers.words.tagged_sentences import OUTSIDE, TaggedSentence
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task, check_choice
from bert_keras.tasks.examples.data_warnings import find_data_warnings
from bert_keras.tasks.examples.file_options import FileOptions, resolve_data
from bert_keras.tasks.examples.held_out import HeldOut, hold_out
from bert_keras.tasks.examples.labelled_files import convert_to_iob2, get_labels, keep_known, read_pairs, read_texts
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification, TextExample
from bert_keras.tasks.token_classification import TokenClassification

# arguments of tasks that a user may set
TASK_SETTINGS = (
    *("problem", "class_weights", "labelled_tokens", "max_answer_length", "objective"),
    *("max_sequence_length", "window_overlap"),
)
_EMBEDDER_SETTINGS = ("pooling", "normalize", "include_prompt", "prompts", "default_prompt_name")


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
        name: the task: "classify", "tag", "answer" or "embed".
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
    pair = ("text1", "text2") if settings.get("objective") == "contrastive" else ("text", "label")
    train_source = resolve_data(train, "train", name, options, pair=pair, spell=spell)
    dev_source = None if dev is None else resolve_data(dev, "dev", name, options, spell=spell)
    bad, held_out = BadExamples(skip=on_error == "skip", spell=spell), None
    read = get_task_head(name).load("training_reader")
    task, train, dev, columns = read(TrainingInputs(train_source, dev_source, options, settings, bad, spell))
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
    if name == "embed" and checkpoint.model == "BertEmbedder":
        settings |= {key: value for key, value in checkpoint.settings.items() if key in _EMBEDDER_SETTINGS}
    if (prompt := settings.pop("prompt", None)) is not None and name == "embed":
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


def read_to_classify(inputs: TrainingInputs) -> TaskExamples:
    """Read texts or pairs with labels or numbers."""
    train_source, dev_source, options, settings, bad, spell = inputs
    problem, dev = settings.get("problem", "single_label"), None
    train, columns = read_texts(train_source, options, problem, bad, spell=spell)
    if dev_source is not None:
        dev, _ = read_texts(dev_source, options.with_columns(columns), problem, bad, spell=spell)
    bad.check()
    classes = [] if problem == "regression" else _find_classes(train, train_source)

    def explain(label: str, _: TextExample) -> str:
        return (
            f"the label {quote(label)} is not in {train_source}, which has {quote_names(classes)}; expected labels "
            "of the training examples: correct it, or add training examples with this label"
        )

    if classes and dev is not None:
        dev = keep_known(dev, get_labels, classes, dev_source, bad, explain)
        _check_any_left(dev, dev_source, bad)
    task = TextClassification(**settings, labels=tuple(classes), has_pairs=columns.second_text is not None)
    return TaskExamples(task, train, dev, columns)


def read_to_tag(inputs: TrainingInputs) -> TaskExamples:
    """Read tagged words."""
    train_source, dev_source, options, settings, bad, spell = inputs
    train, dev = (
        None if source is None else read_tagged_words(source, **options.get_word_options(), bad=bad, spell=spell)
        for source in (train_source, dev_source)
    )
    bad.check()
    scheme = detect_scheme([sentence.tags for sentence in train])
    if scheme == "none":
        _check_no_entities(train, train_source, spell)
    train = convert_to_iob2(train, scheme, train_source, bad)
    dev = None if dev is None else convert_to_iob2(dev, scheme, dev_source, bad)
    _check_any_left(train, train_source, bad)
    tags = _find_tags(train, train_source, spell)

    def explain(tag: str, sentence: TaggedSentence) -> str:
        word = sentence.words[sentence.tags.index(tag)]
        return (
            f"the word {quote(word)} has the tag {quote(tag)}, which is not in {train_source}; its tags are "
            f"{format_names(tags, most=20)}: correct the tag, or add training sentences with it"
        )

    if dev is not None:
        dev = keep_known(dev, lambda sentence: sentence.tags, tags, dev_source, bad, explain)
        _check_any_left(dev, dev_source, bad)
    task = TokenClassification(**settings, labels=tuple(tags), scheme="none" if scheme == "none" else "IOB2")
    return TaskExamples(task, train, dev)


def read_to_answer(inputs: TrainingInputs) -> TaskExamples:
    """Read questions with their answers."""
    train_source, dev_source, options, settings, bad, spell = inputs
    train, dev = (
        None if source is None else read_questions(source, format=options.format, bad=bad, spell=spell)
        for source in (train_source, dev_source)
    )
    bad.check()
    allows_null = any(question.is_impossible for question in train)
    if not allows_null and (impossible := next((one for one in dev or () if one.is_impossible), None)):
        raise InputError(
            f"{dev_source}, {impossible.place}: the question has no answer, but all questions of {train_source} have "
            "one; expected questions of one kind: train with some that have no answer, or remove them"
        )
    return TaskExamples(QuestionAnswering(**settings, allows_null=allows_null), train, dev)


def read_to_embed(inputs: TrainingInputs) -> TaskExamples:
    """Read pairs of texts, with scores or without."""
    train_source, dev_source, options, settings, bad, spell = inputs
    objective, dev = settings.get("objective", "regression"), None
    if dev_source is None and objective == "contrastive":
        raise InputError(
            "contrastive training is scored on pairs with scores, which its own examples do not have: name some with "
            f"{spell('dev')}"
        )
    train, columns = read_pairs(train_source, options, objective, bad, spell=spell)
    if dev_source is not None:
        dev, _ = read_pairs(dev_source, options, "regression", bad, spell=spell)
    bad.check()
    scores = [example.label for example in [*train, *(dev or ())] if example.label is not None]
    return TaskExamples(SentenceEmbedding(**settings, highest_score=max(1.0, *scores)), train, dev, columns)


def _find_classes(examples: Sequence[TextExample], source: Source) -> list[str]:
    """Return the sorted labels of training examples.

    Raises:
        InputError: all examples have the same label, or there are no labels.
    """
    classes = sorted({label for example in examples for label in get_labels(example)})
    has_one_label = isinstance(examples[0].label, str)
    if not has_one_label and not classes:
        raise InputError(f"{source}: no text has a label; expected at least one: check the column of labels")
    if has_one_label and len(classes) < 2:
        raise InputError(
            f"{source}: every text has the label {quote(classes[0])}; expected two or more labels: add texts with "
            "another label, or name another column"
        )
    return classes


def _find_tags(sentences: Sequence[TaggedSentence], source: Source, spell: Spell) -> list[str]:
    """Return the sorted tags of training sentences, with "O" first.

    Raises:
        InputError: all words have the same tag.
    """
    tags = sorted({tag for sentence in sentences for tag in sentence.tags}, key=lambda tag: (tag != OUTSIDE, tag))
    if len(tags) < 2:
        raise InputError(
            f"{source}: every word has the tag {quote(tags[0])}; expected two or more tags: name the column of the "
            f"tags with {spell('tag_column')}"
        )
    return tags


def _check_no_entities(sentences: Sequence[TaggedSentence], source: Source, spell: Spell) -> None:
    """Raise `InputError` if most tags look like IOB2, because a typo would otherwise turn the scheme into "none"."""
    lines = {tag: sentence.line for sentence in reversed(sentences) for tag in sentence.tags}
    entity_tags = {tag for tag in lines if tag[:2] in ("B-", "I-") and tag[2:]}
    others = {tag: line for tag, line in lines.items() if not is_entity_tag(tag)}
    if {tag[0] for tag in entity_tags} == {"B", "I"} and OUTSIDE in lines:
        tag, line = min(others.items(), key=lambda item: item[1])
        raise InputError(
            f"{describe_place(source, line)}: the tag {quote(tag)} is not an entity tag, but others are, such as "
            f"{quote(min(entity_tags))}; expected O, or a letter and a label: correct the tag, or name another column "
            f"with {spell('tag_column')}"
        )


def _check_any_left(examples: Sequence, source: Source, bad: BadExamples) -> None:
    bad.check()
    bad.check_any_left(len(examples), source)
