"""Reject options that a task does not use, for commands and for Python functions."""

from collections.abc import Callable, Mapping

from bert_keras.errors import InputError
from bert_keras.heads.known_heads import list_finetuned_heads

DEV_SHARE = 0.1  # default share of the training examples that is held out
TASKS_OF_OPTION = {  # for commands that read labelled examples: the tasks that each option is for
    name: tuple(head.name for head in list_finetuned_heads() if name in head.options)
    for name in dict.fromkeys(name for head in list_finetuned_heads() for name in head.options)
}


def check_options_of_task(
    given: Mapping[str, object], task: str, *, problem: str | None = None, spell: Callable[[str], str] = str
) -> None:
    """Raise `InputError` with all given options that the task does not use.

    Args:
        given: options, keyed by name; None: not given.
        task: the name of the task.
        problem: the problem of a classifier; None: "single_label".
        spell: spells options in messages.
    """
    options = [name for name in TASKS_OF_OPTION if given.get(name) is not None]
    unused = [
        f"{spell(name)} is for {' or '.join(TASKS_OF_OPTION[name])}, and the task is {task}: leave it out"
        for name in options
        if task not in TASKS_OF_OPTION[name]
    ]
    problem = problem or "single_label"
    if "separator" in options and task in TASKS_OF_OPTION["separator"] and problem != "multi_label":
        unused.append(
            f"{spell('separator')} is for the problem multi_label, and the problem is {problem}: leave it out"
        )
    if unused:
        raise InputError("; ".join(unused))


def check_keyword_arguments(given: Mapping[str, object], known: tuple[str, ...], function: str) -> None:
    """Raise `InputError` with all keyword arguments that a function does not have.

    Args:
        given: the arguments, keyed by name.
        known: the names of the function's arguments.
        function: its name in the message.
    """
    if unknown := [name for name in given if name not in known]:
        are = "is not an argument" if len(unknown) == 1 else "are not arguments"
        raise InputError(f"{', '.join(unknown)} {are} of {function}; expected some of {', '.join(known)}")
