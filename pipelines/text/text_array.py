"""Check a batch of texts, without TensorFlow."""

from typing import Any

import numpy as np

from bert_keras.checks import quote
from bert_keras.errors import InputError


def as_text_array(texts: Any) -> np.ndarray:
    """Return a batch of texts as an object array `(B,)` of strings.

    Raises:
        InputError: `texts` is not a batch of valid strings.
    """
    array = np.asarray(texts, dtype=object)
    if array.ndim != 1:
        kind = "one text" if isinstance(texts, str | bytes) else f"an array of {array.ndim} dimensions"
        raise InputError(f"the tokenizer received {kind}; expected a batch of texts, shape (B,): pass a list of texts")
    for index, text in enumerate(array):
        if not isinstance(text, str | bytes):
            raise InputError(f"text {index} is {quote(text)}, a {type(text).__name__}; expected a string: convert it")
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"text {index} has half a surrogate pair; expected valid Unicode: repair the text")
    return array
