"""Start of a student: the teacher with fewer layers, a new encoder, or a folder, with all tokens or some of them.

No TensorFlow here.
"""

import dataclasses
from collections.abc import Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import exists, read_checkpoint
from bert_keras.checkpoints.students import choose_layers, cut_layers, resize
from bert_keras.config import PRESETS, BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.tasks.base import Task
from bert_keras.tasks.kept_tokens import choose_tokens, trim_checkpoint
from bert_keras.training.config.finetuning_settings import SIZES, Distillation
from bert_keras.training.config.settings import list_fields


def start_student(teacher: Checkpoint, settings: Distillation) -> tuple[Checkpoint, str]:
    """Describe the checkpoint of a student with the whole vocabulary of its teacher, without reading its weights.

    Args:
        teacher: the checkpoint of the teacher.
        settings: which student, see `Distillation`.

    Returns:
        The checkpoint, and a description.

    Raises:
        InputError: the teacher has too few layers or another number of heads, sizes do not fit together, or a folder
            does not exist or has another vocabulary.
    """
    student, description = _start(teacher, settings)
    heads = student.config.num_heads, teacher.config.num_heads
    if settings.attention_weight > 0 and heads[0] != heads[1]:
        raise InputError(
            f"attention_weight is {settings.attention_weight:g}, the student has {heads[0]} heads per layer and the "
            f"teacher {heads[1]}; expected the same number: set attention_weight to 0, or num_heads to {heads[1]}"
        )
    return student, description


def _start(teacher: Checkpoint, settings: Distillation) -> tuple[Checkpoint, str]:
    if settings.student is None:
        layers = choose_layers(settings.num_layers, teacher.config.num_layers)
        names = ", ".join(str(layer + 1) for layer in layers)
        return cut_layers(teacher, layers), f"layers {names} of the teacher's {teacher.config.num_layers}"
    if settings.student not in PRESETS:
        if not exists(settings.student):
            raise InputError(
                f"student is {settings.student}, which does not exist; expected one of {', '.join(PRESETS)}, or a "
                "checkpoint folder: correct the name"
            )
        student = read_checkpoint(settings.student)
        _check_same_vocabulary(student, teacher)
        return student, str(student)
    config = _resize_config(teacher.config, settings)
    copied = "copied from" if config.embedding_dim == teacher.config.embedding_dim else "projected from"
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
    ours, theirs = student.tokenizer_settings, teacher.tokenizer_settings
    has_same_tokens = tuple(ours["vocabulary"]) == tuple(theirs["vocabulary"])
    if not has_same_tokens or _get_rules(ours) != _get_rules(theirs):
        what = "rules for texts" if has_same_tokens else "vocabulary"
        raise InputError(
            f"{student} has another {what} than the teacher {teacher}; expected the same tokens, since both models "
            "read the same ids: choose a preset, or num_layers"
        )


def _get_rules(tokenizer_settings: dict) -> TextRules:
    return TextRules(**{name: value for name, value in tokenizer_settings.items() if name in list_fields(TextRules)})


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
        InputError: see `start_student`.
    """
    student, description = start_student(teacher, settings)
    if settings.trim_vocabulary:
        texts = (text for example in examples for text in task.list_texts(example))
        kept = choose_tokens(load_tokenizer(student), task, texts, ["the training examples"])
        student = trim_checkpoint(student, kept.vocabulary)
        description += f"; {len(kept.vocabulary):,} of {teacher.config.vocabulary_size:,} tokens"
    return student, description
