"""Presets and recipes by their names. No Keras here, so that a command checks them at once."""

import os
import pathlib

from bert_keras.config import PRESETS
from bert_keras.errors import InputError
from bert_keras.training.config.recipes import RECIPES, Pretraining


def recipe_of(subject) -> Pretraining | None:
    """Returns the run that a recipe's name or a TOML file describes; None where the subject is something else.

    Raises:
        InputError: the file cannot be read, is no run, or its budget is in epochs.
    """
    if not isinstance(subject, str | os.PathLike) or pathlib.Path(subject).is_dir():
        return None
    if pathlib.Path(subject).suffix == ".toml":
        run = Pretraining.resolve(subject)
    elif os.fspath(subject) in RECIPES:
        run = Pretraining.resolve(recipe=os.fspath(subject))
    else:
        return None
    if run.budget.epochs is not None:
        raise InputError(
            f"{subject}: the budget is in epochs, whose steps depend on the records, which a plan does not read; "
            "expected budget.steps or budget.hours: say one of them"
        )
    return run


def check_plan_length(length: int, longest: int) -> None:
    """Raises `InputError` if a plan is asked for longer sequences than the model reads."""
    if length > longest:
        raise InputError(f"rows of {length} tokens were asked for, the model reads at most {longest}")


def check_preset(subject) -> None:
    """Raises `InputError` if there is no preset of that name."""
    if str(subject) not in PRESETS:
        raise InputError(
            f"{subject} is neither a folder nor a preset or recipe; expected a BERT folder, a TOML file of "
            f"pretraining, or one of {', '.join((*PRESETS, *RECIPES))}"
        )
