"""Seeded mutations of files and command lines, and a runner that accepts only success or `InputError`.

`mutate_bytes` works for any file. `mutate_json` and `mutate_toml` also change the structure, so most of their inputs
are accepted by the parser. `mutate_words` is for command lines. Each input is determined by its seed and number:

    >>> fuzz(lambda content: read(content), lambda random: mutate_bytes(random, b"a,b\\n"), count=100, seed=1)
"""

import collections
import contextlib
import copy
import faulthandler
import json
import random
import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence

from bert_keras import InputError

MAX_BYTES = 1 << 30  # memory that one input may allocate
MAX_SECONDS = 120  # for one input; longer is a hang
MAX_MESSAGE_LENGTH = 1500
_MAX_INPUT_LENGTH = 2000
_DEEP, _TWIN = "__deep__", "__twin__"

TEXTS = ["", " ", "0", "-1", "NaN", "..", "../../x", "/etc/passwd", "a/b", "\\", "\0", "\x1b[2J", "\r\n", "é", "\u202e"]
TEXTS += ["\U0001f600", "a" * 70_000, "[UNK]", "__class__", "{0}", "%s", "\ufeff", "\u2028"]
NUMBERS = [0, 1, 2, 3, -1, 0.5, 1.5, -0.0, 1e-320, 1e308, 2**31 - 1, 2**31, 2**63, 10**9, 10**12, 10**30, 10**4000]
NUMBERS += [float("nan"), float("inf"), -float("inf")]
VALUES = [None, True, False, [], {}, [None], ["a"], [1, 2], [[]], [{}], {"a": 1}, {"": None}, {"0": "a", "2": "b"}]
BYTES = [b"", b"\0", b"\n", b"\r", b'"', b"'", b",", b"\t", b"{", b"}", b"[", b"]", b"\\", b"\\ud800", b":", b"-", b"e"]
BYTES += [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"9" * 20, b"NaN", b"1e999", b"null", b"\x1b[31m", b"//"]


def fuzz(
    read: Callable[[object], object],
    mutate: Callable[[random.Random], object],
    *,
    count: int,
    seed: int,
    first: int = 0,
) -> collections.Counter:
    """Feed mutated inputs to a reader, and return how many it accepted ("read") and refused ("refused").

    Args:
        read: function of an input that may only return or raise `InputError`.
        mutate: function that creates an input from a random number generator.
        count: number of inputs.
        seed: seed of all inputs.
        first: number of the first input, to repeat a single one.

    Raises:
        AssertionError: the reader raised another error, needed too much memory, or its message is invalid. The message
            contains the input.
    """
    outcomes = collections.Counter()
    for number in range(first, first + count):
        given = mutate(random.Random(f"{seed} {number}"))
        faulthandler.dump_traceback_later(MAX_SECONDS, exit=True, file=sys.__stderr__)
        try:
            with _bounded_memory():
                read(given)
            outcomes["read"] += 1
        except InputError as error:
            outcomes["refused"] += 1
            if problem := _check_message(str(error)):
                raise AssertionError(f"{_describe(seed, number, given)}\n{problem}") from error
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{_describe(seed, number, given)}\n{type(error).__name__}: {error!s:.500}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
    return outcomes


def mutate_bytes(random: random.Random, content: bytes) -> bytes:
    """Mutate a file at one to four places: flip, insert, delete, repeat, truncate or overwrite bytes."""
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(content))
        to = min(len(content), at + random.choice((1, 2, 8, 64)))
        kind = random.randrange(7)
        if kind == 0 and at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + random.choice(BYTES) + content[at:]
        elif kind == 2:
            content = content[:at] + content[to:]
        elif kind == 3:
            content = content[:at] + content[at:to] * random.choice((2, 3, 50)) + content[to:]
        elif kind == 4:
            content = content[:at]
        elif kind == 5:
            content = content[:at] + random.choice(BYTES) + content[to:]
        else:
            content = content[:at] + random.randbytes(to - at) + content[to:]
    return content


def mutate_json(random: random.Random, value: dict | list) -> bytes:
    """Mutate a JSON value at one to three places and encode it; a tenth also goes through `mutate_bytes`."""
    holder = [copy.deepcopy(value)]
    for _ in range(random.randint(1, 3)):
        _change(random, holder)
    text = json.dumps(holder[0], ensure_ascii=random.random() < 0.5)
    depth = random.choice((50, 500, 100_000))
    text = text.replace(_TWIN, "").replace(f'"{_DEEP}"', "[" * depth + "]" * depth)
    if random.random() < 0.1:
        text = text.replace("a", "\\ud83d", 1)  # half a surrogate pair
    content = text.encode("utf-8", errors="surrogatepass")
    return mutate_bytes(random, content) if random.random() < 0.1 else content


def mutate_toml(random: random.Random, text: str) -> bytes:
    """Mutate one to three lines of a TOML file: other values or keys, deleted or repeated lines, another table."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        kind = random.randrange(6)
        if kind <= 2 and equals:
            lines[at] = f"{key}= {_toml_value(random)}"
        elif kind == 3:
            lines.insert(random.randrange(len(lines)), lines[at])
        elif kind == 4:
            lines[at] = f"{random.choice(('x', 'a.b', '[x]', '[[x]]', ''))} {equals} {_toml_value(random)}"
        else:
            del lines[at : at + random.choice((0, 1, 2))]
            lines = lines or [""]
    content = "\n".join(lines).encode("utf-8", errors="surrogatepass")
    return mutate_bytes(random, content) if random.random() < 0.2 else content


def mutate_words(random: random.Random, words: Sequence[str]) -> list[str]:
    """Mutate one to three words of a command line: replace, delete, repeat, move or truncate them."""
    words = list(words)
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(words))
        kind = random.randrange(6)
        hostile = str(random.choice([*TEXTS, *NUMBERS[:-4]])).replace("\0", "")
        if kind == 0:
            words.insert(at, hostile)
        elif kind == 1:
            words[at : at + 1] = []
        elif kind == 2:
            words[at : at + 1] *= 2
        elif kind == 3:
            words[at : at + 1] = [hostile]
        elif kind == 4 and len(words) > 1:
            words.insert(at, words.pop(random.randrange(len(words))))
        elif at < len(words):
            words[at] = words[at][: random.randint(0, len(words[at]))]
    return words


def _change(random: random.Random, holder: list) -> None:
    """Mutate one place of a JSON value, given in a list with one item."""
    places = list(_iterate_places(holder))
    container, key = random.choice(places)
    kind = random.randrange(9)
    if kind <= 2:
        container[key] = _hostile(random)
    elif kind == 3 and (isinstance(container, dict) or container is not holder):
        del container[key]
    elif kind == 4 and isinstance(container, dict):
        container[random.choice((key + _TWIN, key.upper(), key + "x", random.choice(TEXTS)))] = _hostile(random)
    elif kind == 5:
        container[key] = random.choice(([container[key]], {"a": container[key]}, [container[key]] * 3))
    elif kind == 6:
        other, other_key = random.choice(places)
        container[key] = copy.deepcopy(other[other_key])
    elif kind == 7 and isinstance(container[key], int | float):
        container[key] = container[key] * random.choice((-1, 0, 2, 10, 1000)) + random.choice((-1, 0, 1))
    elif isinstance(container[key], str):
        at = random.randint(0, len(container[key]))
        container[key] = container[key][:at] + random.choice(TEXTS) + container[key][at:]


def _iterate_places(value: dict | list) -> Iterator[tuple[dict | list, object]]:
    """Yield every place of a JSON value, as its container and its key or index."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(part, dict | list):
            yield from _iterate_places(part)


def _hostile(random: random.Random) -> object:
    return copy.deepcopy(random.choice(random.choice((TEXTS, NUMBERS, VALUES, ["\ud800", _DEEP]))))


def _toml_value(random: random.Random) -> str:
    fixed = ["true", "nan", "inf", "[]", "{}", "1979-05-27", "[1, 'a']", "{a = 1}", "[" * 5000 + "]" * 5000, "", "1_0"]
    number, text = random.choice(NUMBERS), random.choice(TEXTS)
    return random.choice((random.choice(fixed), str(number), json.dumps(text, ensure_ascii=random.random() < 0.5)))


def _check_message(message: str) -> str | None:
    """Return the problem of an error message, which must be short and valid Unicode; None: no problem."""
    if len(message) > MAX_MESSAGE_LENGTH:
        return f"the message has {len(message):,} characters: {message[:300]}"
    if re.search("[\ud800-\udfff]", message):
        return f"the message is not Unicode: {message!a}"
    return None


def _describe(seed: int, number: int, given: object) -> str:
    text = repr(given)
    cut = f" ... {len(text) - _MAX_INPUT_LENGTH:,} more characters" if len(text) > _MAX_INPUT_LENGTH else ""
    return f"seed {seed}, input {number}: {text[:_MAX_INPUT_LENGTH]}{cut}"


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Raise `MemoryError` in the block if the process allocates more than `MAX_BYTES` of address space."""
    with open("/proc/self/statm") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (present + MAX_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
