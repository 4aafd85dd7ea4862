"""The texts in `templates/`: Dockerfiles, manifests, READMEs and clients that are written beside artifacts."""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from string import Template

_FOLDER = pathlib.Path(__file__).with_name("templates")
_BLOCK = re.compile(r"%(if|each) (not )?(\w+)(?: = (\w+))?\n")
_END = "%end\n"


def fill_template(path: str, /, **facts: object) -> str:
    """Return the text of a template.

    A template is a `string.Template` with blocks that end with `%end` and may be nested. The lines of `%if name`,
    `%if not name` or `%if name = value` remain if the fact of that name is true, false, or `value`. The lines of
    `%each name` are repeated for each dict in the fact, whose items are more facts.

    Args:
        path: the file, relative to `templates/` or absolute.
        **facts: the value of each name in the template.
    """
    lines = (_FOLDER / path).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(_fill_lines(lines, facts))


def _fill_lines(lines: Sequence[str], facts: Mapping[str, object]) -> Iterator[str]:
    depth = start = 0
    for number, line in enumerate(lines):
        if match := _BLOCK.fullmatch(line):
            if depth == 0:
                block, start = match, number + 1
            depth += 1
        elif line == _END:
            depth -= 1
            if depth == 0:
                for scope in _list_scopes(block, facts):
                    yield from _fill_lines(lines[start:number], scope)
        elif depth == 0:
            yield Template(line).substitute(facts)


def _list_scopes(block: re.Match, facts: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the facts of each repetition of a block."""
    kind, negation, name, value = block.groups()
    if kind == "each":
        return [{**facts, **item} for item in facts[name]]
    holds = bool(facts[name]) if value is None else str(facts[name]) == value
    return [facts] if holds != bool(negation) else []
