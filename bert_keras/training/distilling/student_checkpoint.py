"""The checkpoint that a student starts from: the teacher with fewer layers, a new encoder, or a folder."""

import dataclasses
from collections.abc import Iterator, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.students import choose_layers, cut_layers, resize
from bert_keras.config import PRESETS, BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.questions import Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.tasks.base import Task
from bert_keras.tasks.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.training.config.distillation_settings import SIZES, Distillation


def make_student_checkpoint(
    teacher: Checkpoint, task: Task, settings: Distillation, examples: Sequence
) -> tuple[Checkpoint, str]:
    """Make the checkpoint of a student.

    Args:
        teacher: the checkpoint of the teacher.
        task: its task.
        settings: which student, see `Distillation`.
        examples: the training examples, whose tokens are kept if the vocabulary is trimmed.

    Returns:
        The checkpoint, and a description.

    Raises:
        InputError: the teacher has too few layers, sizes do not fit together, or a folder has another vocabulary.
    """
    student, description = _make(teacher, settings)
    if settings.trim_vocabulary:
        kept = choose_tokens(load_tokenizer(student), task, _list_texts(examples), ["the training examples"])
        student = trim_checkpoint(student, kept.vocabulary)
        description += f"; {len(kept.vocabulary):,} of {teacher.config.vocabulary_size:,} tokens"
    return student, description


def _make(teacher: Checkpoint, settings: Distillation) -> tuple[Checkpoint, str]:
    if settings.student is None:
        layers = choose_layers(settings.num_layers, teacher.config.num_layers)
        names = ", ".join(str(layer + 1) for layer in layers)
        return cut_layers(teacher, layers), f"layers {names} of the teacher's {teacher.config.num_layers}"
    if settings.student not in PRESETS:
        student = read_checkpoint(settings.student)
        _check_same_vocabulary(student, teacher)
        return student, str(student)
    config = _resize_config(teacher.config, settings)
    copied = "copied from" if config.hidden_dim == teacher.config.hidden_dim else "projected from"
    sizes = f"{config.num_layers} new layers of width {config.hidden_dim}"
    return resize(teacher, config, seed=settings.seed), f"{sizes}; embeddings {copied} the teacher's"


def _resize_config(config: BertConfig, settings: Distillation) -> BertConfig:
    sizes = dict(PRESETS[settings.student])
    given = {name: value for name in (*SIZES, "num_layers") if (value := getattr(settings, name)) is not None}
    if "hidden_dim" in given:  # the same proportions as those of the preset, unless they are given
        sizes["intermediate_dim"] = sizes["intermediate_dim"] // sizes["hidden_dim"] * given["hidden_dim"]
    sizes |= given
    return dataclasses.replace(config, embedding_dim=sizes["hidden_dim"], **sizes)


def _check_same_vocabulary(student: Checkpoint, teacher: Checkpoint) -> None:
    check_has_vocabulary(student)
    own, theirs = load_tokenizer(student), load_tokenizer(teacher)
    if own.vocabulary != theirs.vocabulary or own.rules != theirs.rules:
        what = "vocabulary" if own.vocabulary != theirs.vocabulary else "rules for texts"
        raise InputError(
            f"{student} has another {what} than the teacher {teacher}; expected the same tokens, since both models "
            "read the same ids: choose a preset, or num_layers"
        )


def _list_texts(examples: Sequence) -> Iterator[str]:
    """Yield the texts of examples of any task."""
    for example in examples:
        if isinstance(example, Question):
            yield example.question
            yield example.context
        elif isinstance(example, TaggedSentence):
            yield " ".join(example.words)
        else:
            yield example.text
            if example.second_text is not None:
                yield example.second_text
