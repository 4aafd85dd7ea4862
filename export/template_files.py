"""The texts in `templates/`: Dockerfiles, manifests, READMEs and clients that are written beside artifacts."""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from string import Template

_FOLDER = pathlib.Path(__file__).with_name("templates")
_BLOCK = re.compile(r"%(if|each) (not )?(\w+)(?: = (\w+))?")
_END = "%end"


def fill_template(path: str, /, **facts: object) -> str:
    """Return the text of a template.

    A template is a `string.Template` with blocks that end with `%end` and may be nested. The lines of `%if name`,
    `%if not name` or `%if name = value` remain if the fact of that name is true, false, or `value`. The lines of
    `%each name` are repeated for each dict in the fact, whose items are more facts.

    Args:
        path: the file, relative to `templates/` or absolute.
        **facts: the value of each name in the template.

    Raises:
        ValueError: a block begins or ends wrongly.
        KeyError: a fact is missing.
    """
    lines = (_FOLDER / path).read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        return "".join(_fill_lines(lines, facts))
    except _BlockError as error:
        raise ValueError(f"{path}: {error}") from None


class _BlockError(ValueError):
    """A block of a template begins or ends wrongly."""


def _fill_lines(lines: Sequence[str], facts: Mapping[str, object]) -> Iterator[str]:
    depth = start = 0
    for number, line in enumerate(lines):
        if match := _BLOCK.fullmatch(line.rstrip()):
            if depth == 0:
                block, start = match, number + 1
            depth += 1
        elif line.startswith(("%if", "%each")) or (line.rstrip() == _END and depth == 0):
            raise _BlockError(f"{line.rstrip()} is no block; expected %if, %each, and %end after them")
        elif line.rstrip() == _END:
            depth -= 1
            if depth == 0:
                for scope in _list_scopes(block, facts):
                    yield from _fill_lines(lines[start:number], scope)
        elif depth == 0:
            yield Template(line).substitute(facts)
    if depth:
        raise _BlockError(f"{block[0]} has no %end; expected one for each block")


def _list_scopes(block: re.Match, facts: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the facts of each repetition of a block."""
    kind, negation, name, value = block.groups()
    if kind == "each":
        return [{**facts, **item} for item in facts[name]]
    holds = bool(facts[name]) if value is None else str(facts[name]) == value
    return [facts] if holds != bool(negation) else []
