"""Messages of functions: remedies name arguments where those of commands name flags."""

import functools
import re
from collections.abc import Callable

from bert_keras.errors import InputError

# flags that the messages about data name, with the values that they give them
_FLAG = re.compile(
    r"--(on-error|dev-share|dev|task|problem|format|text-column|second-text-column|label-column|word-column|tag-column"
    r"|columns|delimiter|separator|max-sequence-length|window-overlap|prompt|objective)\b(?!-)"
    r"(?: (skip|csv|jsonl|json|conll|txt|answer|tag|regression|multi_label)\b)?"
)


def arguments_in_messages(function: Callable) -> Callable:
    """Return a function whose `InputError`s name arguments: `on_error='skip'` for `--on-error skip`."""

    @functools.wraps(function)
    def spelled(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except InputError as error:
            error.args = tuple(_FLAG.sub(_argument, part) if isinstance(part, str) else part for part in error.args)
            raise

    return spelled


def _argument(flag: re.Match) -> str:
    name, value = flag.groups()
    return name.replace("-", "_") + "=" + (repr(value) if value else "")
