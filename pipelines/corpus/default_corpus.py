"""The default corpus: English prose that ships with Python.

A *document* is a list of sentences in reading order. BERT's next-sentence pairs come from the same document.

The rules that find prose in documentation are rough on purpose: a sentence dropped by mistake costs nothing, while a
line of code would be learned as English.
"""

import ast
import logging
import os
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator

from bert_keras.errors import InputError

_LOG = logging.getLogger(__name__)
_SKIPPED_FOLDERS = frozenset(  # tests, vendored code, installed packages, and generated tables with one docstring
    ("__pycache__", "dist-packages", "encodings", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests")
)
# The modules, packages and other pages of each label. Each label has at least a thousand passages in every Python from
# 3.10 to 3.13, although some modules (asyncore, cgi, nntplib) were removed on the way.
_LABELLED_PAGES = {
    "language": "topics",
    "network": "cgi.py email ftplib.py html http imaplib.py ipaddress.py mailbox.py mimetypes.py nntplib.py poplib.py "
    "smtpd.py smtplib.py socket.py socketserver.py ssl.py telnetlib.py urllib webbrowser.py wsgiref xmlrpc",
    "interface": "curses tkinter turtle.py turtledemo",
    "concurrency": "asynchat.py asyncio asyncore.py concurrent multiprocessing queue.py sched.py selectors.py "
    "signal.py subprocess.py threading.py _threading_local.py",
}
_MIN_PASSAGE_WORDS = 8  # shorter sentences are joined: "Return the result." alone fits every label
# Only the manual has curly quotes, so they would reveal its label.
_STRAIGHT_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")

_MIN_WORDS = 4  # shorter fragments are headings, signatures and "Returns None."
_MIN_PLAIN_WORD_RATE = 0.7  # of English prose about code 0.8 to 1.0 are plain words, of code and tables below 0.5
_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n")
_LIST_ITEM = re.compile(r"\n(?=[ \t]*(?:[*+-]|\(?\d+[.)])[ \t])")
_BULLET = re.compile(r"^\s*(?:[*+-]|\(?\d+[.)])\s+")
_RULE_LINE = re.compile(r"^[\W_]+$", re.MULTILINE)
_DOCTEST = re.compile(r"^[ \t]*>>>.*", re.MULTILINE | re.DOTALL)  # from the first prompt to the paragraph's end
_CODE = re.compile(r"::=|^[ \t]*\.\. ", re.MULTILINE)  # grammar rules and reST directives
_ROLE = re.compile(r":[a-z]+(?::[a-z]+)?:`~?([^`<]+?)(?:\s*<[^>]*>)?`")
_QUOTED = re.compile(r"``([^`]+)``|`([^`']+)[`']_{0,2}")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*\n]+?)(?<=\S)\1(?![\w*])")

# A sentence ends at . ! or ?, closing quotes included, before a space and something that can start a sentence.
# Look-behinds avoid a split in "e.g. This", "i.e. That", "vs. X", "Dr. Y" and initials ("J. Smith").
# \u2018 \u2019 and \u201c \u201d are the curly quotes, single and double, of Python's manual.
_SENTENCE_END = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bNo\.)(?<!\b[A-Z]\.)"
    r"(?:(?<=[.!?])|(?<=[.!?][\"')\]\u201d\u2019]))\s+(?=[\"'(\[\u201c\u2018*]?[A-Z0-9])"
)
_STARTS_LIKE_PROSE = re.compile(r"[\"'(\[\u201c\u2018*]?[A-Z]")
_ENDS_LIKE_PROSE = re.compile(r"[\w.!?:][\"')\]\u201d\u2019]?$")
_PLAIN_WORD = re.compile(
    r"[\"'(\[\u201c\u2018*]*[A-Za-z]+(?:['\u2019/-][A-Za-z]+)*[\"')\]\u201d\u2019*]*[.,;:!?]*[\"')\]\u201d\u2019]*$"
)


def make_labelled_passages() -> list[tuple[str, str]]:
    """Return a classification data set, `(text, label)` pairs, from the same text as `read_python_documents`.

    The label is the part of Python that a passage of one to three sentences is about: "language", "network",
    "interface" or "concurrency". All classes have the same number of passages, no sentence occurs twice, and the order
    is fixed. Neighbours come from the same page, so draw held-out passages at random. Python 3.11 gives 4 x 1,078
    passages of 16 words on average (3.13: 4 x 1,120); logistic regression on a bag of words has 84 % held-out accuracy.
    """
    labels = {page: label for label, pages in _LABELLED_PAGES.items() for page in pages.split()}
    passages: dict[str, list[str]] = {label: [] for label in _LABELLED_PAGES}
    seen: set[str] = set()
    for name, paragraphs in _read_pages():
        label = labels.get(name.split("/")[0])
        if label is not None:
            for paragraph in paragraphs:
                passages[label].extend(_join_passages([sentence for sentence in paragraph if sentence not in seen]))
                seen.update(paragraph)
    size = min(map(len, passages.values()))
    return [(texts[len(texts) * i // size], label) for label, texts in passages.items() for i in range(size)]


def _join_passages(sentences: list[str]) -> Iterator[str]:
    """Join the sentences of a paragraph into passages that are long enough, and drop a short rest."""
    words: list[str] = []
    for sentence in sentences:
        words += sentence.translate(_STRAIGHT_QUOTES).split()
        if len(words) >= _MIN_PASSAGE_WORDS:
            yield " ".join(words)
            words = []


def read_python_documents() -> Iterator[list[str]]:
    """Yield the documents of the default corpus: English prose about Python that ships with Python.

    Each page of `pydoc_data.topics`, then the docstrings of each standard library module, is a document. The modules
    are parsed, not imported. Repeated paragraphs are left out. The order is fixed; the text differs between Python
    versions. Python 3.11 gives 1.4 MB: 485 documents, 17,200 sentences, 236,000 words, in 3 to 4 s (3.13: 437, 16,600
    and 226,000).

    Raises:
        InputError: this Python has neither its manual nor the source files of its library.
    """
    for _, paragraphs in _read_pages():
        yield [sentence for paragraph in paragraphs for sentence in paragraph]


def read_python_lines(progress: Callable[[int, int | None], None] | None = None) -> Iterator[str]:
    """Yield the sentences of the default corpus, with a blank line after each document.

    Args:
        progress: called with the number of characters yielded so far, and None.
    """
    num_characters = 0
    for document in read_python_documents():
        yield from [*document, ""]
        num_characters += sum(map(len, document))
        if progress is not None:
            progress(num_characters, None)


def _read_pages() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name ("topics/with", "email/message.py") and the paragraphs of each page with prose."""
    seen: set[tuple[str, ...]] = set()
    for name, texts in _read_texts():
        paragraphs = []
        for paragraph in (paragraph for text in texts for paragraph in extract_paragraphs(text)):
            if tuple(paragraph) not in seen:
                seen.add(tuple(paragraph))
                paragraphs.append(paragraph)
        if paragraphs:
            yield name, paragraphs
    if not seen:
        raise InputError(
            f"there is no text in pydoc_data or under {sysconfig.get_path('stdlib')}; expected the source files of "
            "Python's standard library: install the full Python, or name text files of your own"
        )


def _read_texts() -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the raw texts of each page of the manual and each module of the library."""
    for topic, text in sorted(_read_manual_topics().items()):
        yield f"topics/{topic}", [text]
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(_list_source_files(library), key=lambda path: path.relative_to(library).as_posix()):
        yield path.relative_to(library).as_posix(), _find_docstrings(path)


def _read_manual_topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # minimal Linux packages lack it; the docstrings are three quarters of the text
        _LOG.warning("this Python has no pydoc_data: the default corpus has docstrings only")
        return {}
    return topics


def _list_source_files(library: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, subfolders, files in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED_FOLDERS]
        yield from (pathlib.Path(folder, name) for name in files if name.endswith(".py"))


def _find_docstrings(path: pathlib.Path) -> list[str]:
    """Return the docstrings of a source file, in the order of the source, without running it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarning for an outdated escape, for example
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a template or a fragment named .py
        return []
    return [docstring for node in _walk_definitions(module) if (docstring := ast.get_docstring(node))]


def _walk_definitions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield modules, classes and functions from `node` down. Only statements are visited: ast.walk takes 2x."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from _walk_definitions(child)


def split_sentences(text: str) -> list[str]:
    """Split a paragraph of English text into sentences, with single spaces between words.

    A regular expression splits where `.`, `!` or `?` is followed by a capital letter or a digit, except after a few
    abbreviations and initials.

    Example:
        >>> split_sentences("It works, e.g. Here. Does it?  Yes.")
        ['It works, e.g. Here.', 'Does it?', 'Yes.']
    """
    text = " ".join(text.split())
    return _SENTENCE_END.split(text) if text else []


def extract_paragraphs(text: str) -> list[list[str]]:
    """Return the paragraphs of a docstring or manual page as lists of sentences, without code and tables.

    Args:
        text: reST or plain text, dedented (`inspect.cleandoc`).
    """
    paragraphs = []
    literal_indent = None  # in a literal block: the indent of the paragraph before it, which ended in "::"
    for block in _PARAGRAPH_BREAK.split(text):
        indent = len(block) - len(block.lstrip())
        if literal_indent is not None and indent > literal_indent:
            continue
        literal_indent = indent if block.rstrip().endswith("::") else None
        for item in _LIST_ITEM.split(block):
            sentences = [] if _CODE.search(item) else split_sentences(_remove_markup(item))
            if sentences := [sentence for sentence in sentences if _is_prose(sentence)]:
                paragraphs.append(sentences)
    return paragraphs


def _remove_markup(item: str) -> str:
    """Remove bullets, heading rules, roles, back quotes and stars from a paragraph or list item."""
    item = _RULE_LINE.sub("", _DOCTEST.sub("", _BULLET.sub("", item)))
    item = _ROLE.sub(r"\1", item)
    item = _QUOTED.sub(lambda match: match[1] or match[2], item)
    item = _EMPHASIS.sub(r"\2", item)
    return item.strip().removesuffix("::").rstrip()


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    return (
        len(words) >= _MIN_WORDS
        and _STARTS_LIKE_PROSE.match(sentence) is not None
        and _ENDS_LIKE_PROSE.search(sentence) is not None
        and sum(_PLAIN_WORD.match(word) is not None for word in words) >= _MIN_PLAIN_WORD_RATE * len(words)
    )
