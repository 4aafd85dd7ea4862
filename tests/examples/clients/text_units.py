"""Convert texts and ranges between Python's code points and UTF-16 units."""

import re

import numpy as np

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return a text with U+FFFD in place of each lone surrogate, as clients treat it."""
    return _SURROGATE.sub("\ufffd", text)


def find_places(text: str, *, is_utf16: bool) -> np.ndarray:
    """Return the place of each code point of a text and of its end, in UTF-16 units if `is_utf16`."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = 1 + (codes > 0xFFFF) if is_utf16 else np.ones(len(codes), int)
    return np.concatenate([[0], np.cumsum(sizes)])
