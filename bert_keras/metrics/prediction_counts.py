"""Check shared by all scores: there is one prediction per example, and at least one example."""

from bert_keras.errors import InputError


def check_counts(num_examples: int, num_predictions: int, *, what: str = "examples") -> None:
    """Raise `InputError` unless there is one prediction per example, and at least one example.

    Args:
        num_examples, num_predictions: their numbers.
        what: the word for examples in messages.
    """
    if num_examples != num_predictions:
        raise InputError(
            f"there are {num_predictions:,} predictions for {num_examples:,} {what}; expected one for each: predict "
            "all of them, in the same order"
        )
    if not num_examples:
        raise InputError(f"there are no {what} to score; expected at least one: check how they were read")
