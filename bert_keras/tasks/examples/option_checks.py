"""Which tasks look at an option, and a check that refuses the others, for commands and for Python."""

from collections.abc import Callable, Mapping

from bert_keras.errors import InputError

DEV_SHARE = 0.1  # of the training examples, held out where no others are named
# where labelled examples are read
TASKS_OF_OPTION = {
    "problem": ("classify",),
    "class_weights": ("classify",),
    "labelled_tokens": ("tag",),
    "max_answer_length": ("answer",),
    "objective": ("embed",),
    "prompt": ("embed",),
    "window_overlap": ("classify", "tag", "answer"),
    "text_column": ("classify", "embed"),
    "second_text_column": ("classify", "embed"),
    "label_column": ("classify", "embed"),
    "columns": ("classify", "embed"),
    "delimiter": ("classify", "embed"),
    "separator": ("classify",),
    "word_column": ("tag",),
    "tag_column": ("tag",),
}


def check_options_of_task(
    given: Mapping[str, object], task: str, *, problem: str = "single_label", spell: Callable[[str], str] = str
) -> None:
    """Raise `InputError` that names every option that was given and that the task does not look at.

    Args:
        given: options by name; None: it was not given.
        task: the name of the task.
        problem: of a classifier.
        spell: writes the name of an option as the user gave it.
    """
    options = [name for name in TASKS_OF_OPTION if given.get(name) is not None]
    alien = [
        f"{spell(name)} is for {' or '.join(TASKS_OF_OPTION[name])}, and the task is {task}: leave it out"
        for name in options
        if task not in TASKS_OF_OPTION[name]
    ]
    if task == "classify" and problem != "multi_label" and "separator" in options:
        alien.append(f"{spell('separator')} is for the problem multi_label, and the problem is {problem}: leave it out")
    if alien:
        raise InputError("; ".join(alien))


def check_keyword_arguments(given: Mapping[str, object], known: tuple[str, ...], function: str) -> None:
    """Raise `InputError` that names every keyword argument that a function does not have.

    Args:
        given: the arguments by name.
        known: the names that it has.
        function: its name, for the message.
    """
    if unknown := [name for name in given if name not in known]:
        are = "is no setting" if len(unknown) == 1 else "are no settings"
        raise InputError(f"{', '.join(unknown)} {are} of {function}; expected some of {', '.join(known)}")
