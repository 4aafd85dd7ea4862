"""Parse TOML from untrusted files in bounded time and memory. No TensorFlow here."""

import pathlib
import re
import sys

from bert_keras.checks import quote
from bert_keras.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 64 * 2**10  # 50 times the largest recipe
_MAX_KEY_PARTS = 32
# the time of Python's parser is quadratic in the parts of a key: 12 s for a file of 64 kB with one key
_KEY_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*"""
# it matches only where TOML allows keys: a search at every position took 14.8 s for 32,700 times \"
_LONG_KEY = re.compile(rf"(?m)(?:^|[\[{{,])[ \t]*(?:{_KEY_PART}){{{_MAX_KEY_PARTS}}}")


def read_toml(path: pathlib.Path) -> dict:
    """Read a TOML file of at most 64 KiB.

    Raises:
        InputError: the file cannot be read, is too large, or is not TOML in UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InputError(
                f"{path} has more than {_MAX_BYTES:,} bytes; expected a file of settings: choose another file"
            )
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); expected a TOML file: check the path") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}); expected one setting per line: correct it") from None


def parse_toml(text: str) -> dict:
    """Parse TOML.

    Raises:
        ValueError: the text is not TOML, or has extremely long keys or numbers.
    """
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {_MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # a number of more than 4,300 digits raises a plain ValueError
        raise ValueError(quote(str(error))[1:-1]) from None
