"""Seeded mutations of files and command lines, and a runner that allows a reader success and `InputError` only.

`mutate_bytes` suits any file; `mutate_json` and `mutate_toml` also change the structure, so that most of their inputs
get past the parser; `mutate_words` is for command lines. Every input follows from (seed, number):

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

MOST_BYTES = 1 << 30  # that one input may add to the memory of the process
MOST_SECONDS = 120  # for one input; longer is a hang
LONGEST_MESSAGE = 1500
_SHOWN = 2000
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
    """Feed mutated inputs to a reader and return how many it took and how many it refused.

    Args:
        read: gets an input; it may only return or raise `InputError`.
        mutate: makes an input from a generator of random numbers.
        count: number of inputs.
        seed: of all inputs.
        first: number of the first input, to repeat a single one.

    Raises:
        AssertionError: a reader failed otherwise, took too much memory, or gave a long message; with the input.
    """
    outcomes = collections.Counter()
    for number in range(first, first + count):
        given = mutate(random.Random(f"{seed} {number}"))
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True, file=sys.__stderr__)
        try:
            with _bounded_memory():
                read(given)
            outcomes["read"] += 1
        except InputError as error:
            outcomes["refused"] += 1
            if fault := _fault_of(str(error)):
                raise AssertionError(f"{_shown(seed, number, given)}\n{fault}") from error
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{_shown(seed, number, given)}\n{type(error).__name__}: {error!s:.500}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
    return outcomes


def mutate_bytes(random: random.Random, content: bytes) -> bytes:
    """Change one to four places of a file: flip, insert, delete, repeat, cut, overwrite."""
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
    """Change one to three places of a JSON value, and write it; one in ten also gets `mutate_bytes`."""
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
    """Change one to three lines of a TOML file: other values, other keys, left out, repeated, in another table."""
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
    """Change one to three words of a command line: other values, left out, repeated, moved, cut."""
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
    """Change one place of a JSON value that stands in a list of one."""
    places = list(_places(holder))
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


def _places(value: dict | list) -> Iterator[tuple[dict | list, object]]:
    """Yield every place of a JSON value, as its container and its key in it."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def _hostile(random: random.Random):
    return copy.deepcopy(random.choice(random.choice((TEXTS, NUMBERS, VALUES, ["\ud800", _DEEP]))))


def _toml_value(random: random.Random) -> str:
    fixed = ["true", "nan", "inf", "[]", "{}", "1979-05-27", "[1, 'a']", "{a = 1}", "[" * 5000 + "]" * 5000, "", "1_0"]
    number, text = random.choice(NUMBERS), random.choice(TEXTS)
    return random.choice((random.choice(fixed), str(number), json.dumps(text, ensure_ascii=random.random() < 0.5)))


def _fault_of(message: str) -> str | None:
    """Return what is wrong with a message: it should be one sentence that every terminal can show."""
    if len(message) > LONGEST_MESSAGE:
        return f"the message has {len(message):,} characters: {message[:300]}"
    if re.search("[\ud800-\udfff]", message):
        return f"the message is no Unicode: {message!a}"
    return None


def _shown(seed: int, number: int, given: object) -> str:
    text = repr(given)
    cut = f" ... {len(text) - _SHOWN:,} more characters" if len(text) > _SHOWN else ""
    return f"seed {seed}, input {number}: {text[:_SHOWN]}{cut}"


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let the process take no more than `MOST_BYTES` of address space beyond what it has; then `MemoryError`."""
    with open("/proc/self/statm") as file:
        present = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (present + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
