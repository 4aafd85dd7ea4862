"""The code blocks of the README, the documentation and the examples: found, classified, and their commands parsed.

Every fenced block has a language. `bash` and `python` blocks run in a test (`tests/test_readme.py`,
`tests/docs/test_code_blocks.py`), unless the line before the fence says why not: `<!-- not run: REASON -->`. A `text`
or `json` block directly after such a block is its output. A block with `title="FILE"` is the content of that file.
"""

import dataclasses
import pathlib
import re
import shlex

REPOSITORY = pathlib.Path(__file__).parents[1]
RUN = ("bash", "python")
_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)(?P<options>[^`]*)$")
_MARKER = re.compile(r" *<!-- not run: (?P<reason>\S.*\S) -->$")
_TITLE = re.compile(r'title="([^"]+)"')
_ENDS_OF_COMMANDS = ("|", "&&", "||", ";", "&")
_REDIRECTIONS = ("<", ">", ">>")
_VARIABLE = re.compile(r"[A-Z_]+=")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: path from the repository.
        line: line number of the opening fence, from 1.
        language: `bash`, `python`, ...; empty if the fence has none.
        code: the lines between the fences.
        reason: why no test runs it, from its marker; None without a marker.
        title: name of the file whose content it is; None for other blocks.
        is_output: whether it is the output of the block before it.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str | None = None
    title: str | None = None
    is_output: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a test runs it."""
        return self.language in RUN and self.reason is None


def find_pages() -> list[str]:
    """Return the pages, as paths from the repository: the README, the documentation and the examples.

    `docs/migration` has its own test (`tests/docs/test_migration.py`), and the site's folder `docs/_site` no pages.
    """
    paths = [*REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("examples/*.md"), *REPOSITORY.glob("examples/*/*.md")]
    names = sorted(path.relative_to(REPOSITORY).as_posix() for path in paths)
    return ["README.md", *(name for name in names if not name.startswith(("docs/migration/", "docs/_site/")))]


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return find_blocks((REPOSITORY / page).read_text(encoding="utf-8"), page)


def find_blocks(text: str, page: str = "page") -> list[Block]:
    """Return the blocks of a Markdown text, in order."""
    blocks: list[Block] = []
    lines = text.splitlines()
    opening = None
    start = previous_end = 0  # line of the opening fence; the line after the previous block
    for number, line in enumerate(lines):
        if opening is None:
            opening, start = _FENCE.match(line), number
        elif line.strip() == opening["fence"]:
            follows = bool(blocks) and not "".join(lines[previous_end:start]).strip()
            before = blocks[-1].language if follows else None
            blocks.append(_make_block(page, lines, start, number, opening, before))
            opening, previous_end = None, number + 1
    if opening is not None:
        raise ValueError(f"{page}:{start + 1}: the block has no closing fence")
    return blocks


def _make_block(page: str, lines: list[str], start: int, end: int, opening: re.Match, before: str | None) -> Block:
    marker = _MARKER.match(lines[start - 1]) if start else None
    title = _TITLE.search(opening["options"])
    indent = len(opening["indent"])
    return Block(
        page=page,
        line=start + 1,
        language=opening["language"],
        code="".join(f"{line[indent:]}\n" for line in lines[start + 1 : end]),
        reason=marker["reason"] if marker else None,
        title=title[1] if title else None,
        is_output=before in RUN and opening["language"] in ("text", "json") and title is None,
    )


def parse_commands(code: str) -> list[list[str]]:
    """Return the words of every command of a shell block, without variables and redirections.

    Example:
        >>> parse_commands("echo '[MASK]' | bert-keras fill-mask model - > out  # one text")
        [['echo', '[MASK]'], ['bert-keras', 'fill-mask', 'model', '-']]
    """
    commands: list[list[str]] = []
    unread = ""  # the lines of a string that has not ended
    for line in re.sub(r"\\\n", " ", code).splitlines():
        unread += line
        try:
            commands += _split_commands(unread)
            unread = ""
        except ValueError:
            unread += "\n"
    if unread:
        raise ValueError(f"a string has no end: {unread}")
    return [words for words in commands if words]


def _split_commands(line: str) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.commenters, lexer.whitespace_split = "#", True
    commands: list[list[str]] = []
    words: list[str] = []
    skip_next = False
    for word in [*lexer, ";"]:
        if skip_next:
            skip_next = False
        elif word in _ENDS_OF_COMMANDS:
            commands.append(words)
            words = []
        elif word in _REDIRECTIONS:
            skip_next = True
        elif words or not _VARIABLE.match(word):
            words.append(word)
    return commands


def find_bert_keras_commands(block: Block) -> list[list[str]]:
    """Return the arguments of every `bert-keras` command of a block; those of a `text` block are after a `$`."""
    code = block.code
    if block.language != "bash":
        code = "".join(f"{line}\n" for line in re.findall(r"^\$ (bert-keras .*)$", code, re.MULTILINE))
    return [words[1:] for words in parse_commands(code) if words[0] == "bert-keras"]
