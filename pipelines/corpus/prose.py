"""English sentences from documentation, without markup, code and tables.

The rules are rough on purpose: a sentence dropped by mistake costs nothing, while a line of code would be learned as
English.
"""

import re

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
