"""Checks of the arguments of a `Distiller`."""

import math

from bert_keras.errors import InputError
from bert_keras.modeling.heads import HeadModel


def check_settings(temperature: float, label_weight: float, hidden_weight: float, attention_weight: float) -> None:
    """Raise `InputError` if a setting of a `Distiller` is out of range."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature is {temperature}; expected a number above 0, such as 2: change it")
    if not 0 <= label_weight <= 1:
        raise InputError(f"label_weight is {label_weight}; expected a number from 0 to 1: change it")
    for name, weight in {"hidden_weight": hidden_weight, "attention_weight": attention_weight}.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"{name} is {weight}; expected a number from 0 on: change it")


def check_pair(
    student: HeadModel,
    teacher: HeadModel | None,
    hidden_weight: float,
    attention_weight: float,
    *,
    has_ids: bool,
) -> None:
    """Raise `InputError` unless a student can learn from a teacher, or from its outputs if `teacher` is None."""
    if teacher is None:
        if hidden_weight > 0 or attention_weight > 0:
            raise InputError(
                f"hidden_weight is {hidden_weight:g} and attention_weight {attention_weight:g}, and there is no "
                "teacher to compare with; expected 0 for both: pass a teacher, or set them to 0"
            )
        return
    kinds = type(student).__name__, type(teacher).__name__
    if kinds[0] != kinds[1] or _count_outputs(student) != _count_outputs(teacher):
        raise InputError(
            f"the student is a {kinds[0]} with {_count_outputs(student)} outputs and the teacher a {kinds[1]} with "
            f"{_count_outputs(teacher)}; expected the same: build the student with the head of the teacher"
        )
    sizes = student.encoder.config.vocabulary_size, teacher.encoder.config.vocabulary_size
    if not has_ids and sizes[0] != sizes[1]:
        raise InputError(
            f"the student has {sizes[0]} tokens and the teacher {sizes[1]}; expected the same vocabulary, or the ids "
            "of the student's tokens in the teacher's: pass teacher_ids"
        )
    heads = student.encoder.config.num_heads, teacher.encoder.config.num_heads
    if attention_weight > 0 and heads[0] != heads[1]:
        raise InputError(
            f"attention_weight is {attention_weight:g}, the student has {heads[0]} heads per layer and the teacher "
            f"{heads[1]}; expected the same number: set attention_weight to 0, or num_heads to {heads[1]}"
        )


def _count_outputs(model: HeadModel) -> int | None:
    """Return the number of classes, or the width of sentence vectors; None: the outputs of all models are alike."""
    if model.has_vectors:
        [shape] = model.compute_output_shape().values()
        return shape[-1]
    return getattr(model, "num_classes", None)
