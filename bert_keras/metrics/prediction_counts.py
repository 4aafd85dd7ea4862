"""The check that all scores share: every example has its prediction, and there is at least one."""

from bert_keras.errors import InputError


def check_pairs(num_examples: int, num_predictions: int, *, what: str = "examples") -> None:
    """Raises `InputError` unless there are as many predictions as examples, and at least one.

    Args:
        num_examples, num_predictions: how many were given.
        what: the word for the examples in the message.
    """
    if num_examples != num_predictions:
        raise InputError(
            f"there are {num_predictions:,} predictions for {num_examples:,} {what}; expected one for each: predict "
            "them all, and in their order"
        )
    if not num_examples:
        raise InputError(f"there are no {what} to score; expected one at least: look at how they were read")
