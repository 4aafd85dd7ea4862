"""Where raw text comes from: files of sentences, or the English prose that ships with Python itself.

A *document* is a list of sentences in reading order: the unit within which BERT's
next-sentence pairs are drawn.
"""

import ast
import logging
import os
import pathlib
import sysconfig
import warnings
from collections.abc import Callable, Iterator

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.prose import prose_paragraphs, split_sentences
from bert_keras.pipelines.corpus.text_sources import Names, find_sources, group_documents, read_lines

__all__ = ["labelled_passages", "python_documents", "read_documents", "split_sentences"]

_LOG = logging.getLogger(__name__)

_SKIPPED_FOLDERS = frozenset(  # tests, vendored code, installed packages, and generated tables with one docstring
    ("__pycache__", "dist-packages", "encodings", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests")
)

# What a passage is about, by the page it stands on: the families that have a thousand passages and more
# in every Python from 3.10 to 3.13 (asyncore, cgi, nntplib and others went away on the way).
_FAMILIES = {
    "language": "topics",
    "network": "cgi.py email ftplib.py html http imaplib.py ipaddress.py mailbox.py mimetypes.py nntplib.py poplib.py "
    "smtpd.py smtplib.py socket.py socketserver.py ssl.py telnetlib.py urllib webbrowser.py wsgiref xmlrpc",
    "interface": "curses tkinter turtle.py turtledemo",
    "concurrency": "asynchat.py asyncio asyncore.py concurrent multiprocessing queue.py sched.py selectors.py "
    "signal.py subprocess.py threading.py _threading_local.py",
}
_MIN_PASSAGE_WORDS = 8  # sentences are joined up to here: a lone "Return the result." belongs to every family
# Only the manual has curly quotes: left as they are, they would tell its passages from all others.
_STRAIGHT_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def read_documents(
    paths: Names, *, field: str = "text", progress: Callable[[int, int | None], None] | None = None
) -> Iterator[list[str]]:
    """Yields the documents of UTF-8 text: one sentence a line, a blank line between documents.

    A record of a JSON-lines file is a document, the lines of its `field` are sentences. Files are read
    line by line, so their size does not matter. A document never spans two files.

    Args:
        paths: files, folders, patterns, gzip, JSON lines or `-` (see `text_sources.find_sources`), in the order given.
        field: which field of a JSON record holds the text.
        progress: told the bytes read so far and of all files (None: nobody knows).

    Raises:
        InputError: a file is missing (told at once, before any is read), is not UTF-8, holds NUL bytes, or holds
            no text at all (see `text_sources.read_lines`).
    """
    return group_documents(read_lines(find_sources(paths), field=field, progress=progress))


def labelled_passages() -> list[tuple[str, str]]:
    """Returns a ready-made classification task: `(text, label)`, from the same text as `python_documents`.

    The label says which part of Python a passage of one to three sentences is about: "language",
    "network", "interface" or "concurrency". All classes have the same number of passages, no sentence occurs
    twice, and the order is fixed: neighbours come from the same page, so a held-out part
    should be drawn at random. Python 3.11 gives 4 x 1,078 passages of 16 words (3.13: 4 x 1,120); logistic
    regression on a bag of words classifies 84 % of held-out ones.
    """
    get_family = {folder: family for family, folders in _FAMILIES.items() for folder in folders.split()}
    passages: dict[str, list[str]] = {family: [] for family in _FAMILIES}
    seen: set[str] = set()
    for name, paragraphs in _python_pages():
        family = get_family.get(name.split("/")[0])
        if family is not None:
            for paragraph in paragraphs:
                passages[family].extend(_passages([sentence for sentence in paragraph if sentence not in seen]))
                seen.update(paragraph)
    size = min(map(len, passages.values()))
    return [(texts[len(texts) * i // size], family) for family, texts in passages.items() for i in range(size)]


def _passages(sentences: list[str]) -> Iterator[str]:
    """Yields the sentences of one paragraph, joined until each passage is long enough; a short rest is dropped."""
    words: list[str] = []
    for sentence in sentences:
        words += sentence.translate(_STRAIGHT_QUOTES).split()
        if len(words) >= _MIN_PASSAGE_WORDS:
            yield " ".join(words)
            words = []


def python_documents() -> Iterator[list[str]]:
    """Yields the embedded default corpus: English prose about Python that ships with Python.

    The pages of `pydoc_data.topics`, then the docstrings of every standard library module, one
    document a page or module. The modules are parsed, not imported. A paragraph that occurred
    before is left out, since many pages repeat each other. The order is fixed; the text itself differs
    between Python versions. Python 3.11 gives 1.4 MB: 485 documents, 17,200 sentences, 236,000 words, in 3 to 4 s
    (3.13: 437, 16,600 and 226,000).

    Raises:
        InputError: this Python has neither its manual nor its library's source files.
    """
    for _, paragraphs in _python_pages():
        yield [sentence for paragraph in paragraphs for sentence in paragraph]


def _python_pages() -> Iterator[tuple[str, list[list[str]]]]:
    """Yields the name ("topics/with", "email/message.py") and the paragraphs of every page that has prose."""
    seen: set[tuple[str, ...]] = set()
    for name, texts in _python_texts():
        paragraphs = []
        for paragraph in (paragraph for text in texts for paragraph in prose_paragraphs(text)):
            if tuple(paragraph) not in seen:
                seen.add(tuple(paragraph))
                paragraphs.append(paragraph)
        if paragraphs:
            yield name, paragraphs
    if not seen:
        raise InputError(
            f"there is no text in pydoc_data nor under {sysconfig.get_path('stdlib')}; expected the source files of "
            "Python's standard library: install the full Python, or name text files of your own"
        )


def _python_texts() -> Iterator[tuple[str, list[str]]]:
    """Yields the name and the raw texts of every page of the manual and every module of the library."""
    for topic, text in sorted(_manual_topics().items()):
        yield f"topics/{topic}", [text]
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(_source_files(library), key=lambda path: path.relative_to(library).as_posix()):
        yield path.relative_to(library).as_posix(), _docstrings(path)


def _manual_topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # minimal Linux packages leave it out; the library's docstrings are three quarters of the text
        _LOG.warning("this Python has no pydoc_data: the corpus is made of docstrings only")
        return {}
    return topics


def _source_files(library: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, subfolders, files in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED_FOLDERS]
        yield from (pathlib.Path(folder, name) for name in files if name.endswith(".py"))


def _docstrings(path: pathlib.Path) -> list[str]:
    """Returns the docstrings of a source file, in the order of the source, without running it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as SyntaxWarning for an old escape in somebody else's source
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a template or a fragment that only ends in .py
        return []
    return [docstring for node in _definitions(module) if (docstring := ast.get_docstring(node))]


def _definitions(node: ast.AST) -> Iterator[ast.AST]:
    """Yields modules, classes and functions from `node` down, looking into statements only (ast.walk takes 2x)."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from _definitions(child)
