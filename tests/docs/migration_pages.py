"""The snippets of `docs/migration/`: their text, how to run them, and which of their variables must be equal.

No imports beyond the standard library and NumPy: `record_migration.py` runs this in other environments.
"""

import hashlib
import math
import os
import pathlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "migration"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- not run: (.+) -->\n\Z")


class Block(NamedTuple):
    """One fenced block of a page.

    Attributes:
        section: the heading above it.
        side: "before" or "after", by the last line "Before:" or "After:" of the section; "after" without such a line.
        language: the word after the fence.
        code: its text.
        reason: why it is not run, or None.
    """

    section: str
    side: str
    language: str
    code: str
    reason: str | None


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    blocks = []
    for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]:
        section, _, body = part.partition("\n")
        for match in FENCE.finditer(body):
            sides = re.findall(r"^(Before|After)\b.*:$", body[: match.start()], re.MULTILINE)
            mark = MARK.search(body[: match.start()])
            side = sides[-1].lower() if sides else "after"
            blocks.append(Block(section, side, match[1], match[2], mark and mark[1]))
    return blocks


def hash_blocks(blocks: Iterable[Block]) -> str:
    """Return a hash of the code of blocks, which does not depend on how a formatter breaks the lines."""
    code = "".join(block.code for block in blocks)
    return hashlib.sha256(re.sub(r"[\s,()]+", "", code).encode()).hexdigest()


def run_blocks(
    blocks: Iterable[Block],
    compared: dict[str, dict[str, float]],
    run_command: Callable[[list[str]], None],
) -> dict[str, dict[str, object]]:
    """Run blocks in their order in one namespace, and return the compared variables of each section.

    Args:
        blocks: blocks of one side of one page.
        compared: names of variables, keyed by section.
        run_command: runs one line of a shell block.
    """
    names: dict = {"__name__": "page"}
    values: dict = {}
    for block in blocks:
        if block.language == "python":
            exec(compile(block.code, f"{block.section} ({block.side})", "exec"), names)
        else:
            for line in block.code.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    run_command(words)
        wanted = [name for name in compared.get(block.section, ()) if name in names]
        values[block.section] = {name: to_plain(names[name]) for name in wanted}
    return values


def run_in_shell(words: list[str]) -> None:
    """Run one command in a process of its own."""
    subprocess.run(words, check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})


def to_plain(value: object) -> object:
    """Return a value as numbers, texts, lists and dicts."""
    if isinstance(value, dict):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if hasattr(value, "detach"):
        value = value.detach()
    if hasattr(value, "to_list"):  # a ragged tensor
        return value.to_list()
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist()) if value.dtype.kind in "OSb" else np.asarray(value, "float64").round(7).tolist()
    return value


def find_difference(left: object, right: object, place: str = "value") -> tuple[float, str]:
    """Return the largest difference of two plain values and its place; infinity if they have another form or a NaN."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        pairs = [(left[name], right[name], f"{place}[{name!r}]") for name in left]
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = [
            (one, other, f"{place}[{number}]") for number, (one, other) in enumerate(zip(left, right, strict=True))
        ]
    elif isinstance(left, int | float) and isinstance(right, int | float):
        difference = abs(left - right)
        return (float("inf") if math.isnan(difference) else difference), place  # `max` would ignore a NaN
    else:
        return (0.0 if left == right else float("inf")), f"{place}: {left!r:.80} and {right!r:.80}"
    return max((find_difference(*pair) for pair in pairs), default=(0.0, place))
