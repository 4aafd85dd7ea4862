"""`check_choice`: a layer or a head that is asked for. No Keras here, so that a command checks it at once."""

from bert_keras.errors import InputError


def check_choice(name: str, number: int | None, count: int) -> None:
    """Raises `InputError` if a layer or a head is asked for that the model does not have."""
    if number is not None and not 0 <= number < count:
        which = f"{name}s 0 to {count - 1}" if count > 1 else f"{name} 0 alone"
        raise InputError(f"there is no {name} {number}; the model has {which}: name one of them")
