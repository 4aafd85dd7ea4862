"""Start of a student: the teacher with fewer layers, a new encoder, or a folder. No TensorFlow here."""

import dataclasses

from bert_keras.checkpoints.checkpoint import Checkpoint, check_has_vocabulary
from bert_keras.checkpoints.reading import exists, read_checkpoint
from bert_keras.checkpoints.students import choose_layers, cut_layers, resize
from bert_keras.config import PRESETS
from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.training.config.finetuning_settings import SIZES, Distillation
from bert_keras.training.config.settings import list_fields


def start_student(teacher: Checkpoint, settings: Distillation) -> tuple[Checkpoint, str]:
    """Return the checkpoint of a student with the whole vocabulary of its teacher, and a description.

    Its weights are not read.

    Raises:
        InputError: the teacher has too few layers or another number of heads, sizes do not fit together, or a folder
            does not exist or has another vocabulary.
    """
    if settings.student is None:
        layers = choose_layers(settings.num_layers, teacher.config.num_layers)
        names = ", ".join(str(layer + 1) for layer in layers)
        student = cut_layers(teacher, layers)
        description = f"layers {names} of the teacher's {teacher.config.num_layers}"
    elif settings.student in PRESETS:
        sizes = dict(PRESETS[settings.student])
        given = {name: value for name in (*SIZES, "num_layers") if (value := getattr(settings, name)) is not None}
        if "hidden_dim" in given:  # the same proportions as those of the preset, unless they are given
            sizes["intermediate_dim"] = sizes["intermediate_dim"] // sizes["hidden_dim"] * given["hidden_dim"]
        sizes |= given
        config = dataclasses.replace(teacher.config, embedding_dim=sizes["hidden_dim"], **sizes)
        student = resize(teacher, config, seed=settings.seed)
        copied = "copied from" if config.embedding_dim == teacher.config.embedding_dim else "projected from"
        new = f"{config.num_layers} new layers of width {config.hidden_dim}"
        description = f"{new}; embeddings {copied} the teacher's"
    else:
        if not exists(settings.student):
            raise InputError(
                f"student is {settings.student}, which does not exist; expected one of {', '.join(PRESETS)}, or a "
                "checkpoint folder: correct the name"
            )
        student = read_checkpoint(settings.student)
        check_has_vocabulary(student)
        ours, theirs = student.tokenizer_settings, teacher.tokenizer_settings
        has_same_tokens = tuple(ours["vocabulary"]) == tuple(theirs["vocabulary"])
        names = list_fields(TextRules)
        rules = [TextRules(**{name: one[name] for name in names if name in one}) for one in (ours, theirs)]
        if not has_same_tokens or rules[0] != rules[1]:
            what = "rules for texts" if has_same_tokens else "vocabulary"
            raise InputError(
                f"{student} has another {what} than the teacher {teacher}; expected the same tokens, since both models "
                "read the same ids: choose a preset, or num_layers"
            )
        description = str(student)
    heads = student.config.num_heads, teacher.config.num_heads
    if settings.attention_weight > 0 and heads[0] != heads[1]:
        raise InputError(
            f"attention_weight is {settings.attention_weight:g}, the student has {heads[0]} heads per layer and the "
            f"teacher {heads[1]}; expected the same number: set attention_weight to 0, or num_heads to {heads[1]}"
        )
    return student, description
