"""`check_counts`: numbers that must be 1 or more."""

from bert_keras.errors import InputError


def check_counts(**counts: int) -> None:
    """Checks that each number is 1 or more.

    Raises:
        InputError: one is not; it is named.
    """
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} is {count}; expected 1 or more")
