"""Choose the columns of texts and labels in a table: those that the user names, or those with usual names."""

import dataclasses
from collections.abc import Iterable, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.raw_examples import check_column, quote_names

# Whole names in lower case, with `_` for spaces and hyphens, in order of preference; pairs come before single texts.
# Prefixes do not match, because MNLI also has `sentence1_parse` and `label1`.
_PAIRS = (
    ("sentence1", "sentence2"),  # MNLI, SNLI, RTE, WNLI, STS-B
    ("premise", "hypothesis"),
    ("question1", "question2"),  # QQP
    ("#1_string", "#2_string"),  # MRPC
    ("question", "sentence"),  # QNLI
    ("sentence_a", "sentence_b"),  # SICK
    ("sentence_1", "sentence_2"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
)
_TEXTS = (
    *("text", "sentence", "review", "review_text", "reviewtext", "content", "document", "comment", "comment_text"),
    *("tweet", "utterance", "query", "message", "headline", "body"),
    *(first for first, _ in _PAIRS),
)
_LABELS = (
    *("gold_label", "label", "labels", "category", "categories", "class", "target", "is_duplicate", "quality"),
    *("score", "similarity", "similarity_score", "relatedness_score", "rating", "stars", "sentiment", "intent"),
    *("emotion", "topic"),
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a table.

    Attributes:
        text: the column of texts.
        second_text: the column of second texts of pairs; None: the texts are single.
        label: the column of labels or scores; None: they are not read.
        delimiter: the delimiter of a `.csv`, if it is not a comma.
        more_texts: the columns of further texts.
    """

    text: str
    second_text: str | None
    label: str | None
    delimiter: str | None = None
    more_texts: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The columns of texts, in order."""
        return [name for name in (self.text, self.second_text, *self.more_texts) if name is not None]

    @property
    def names(self) -> list[str]:
        """The columns of texts and then the column of labels, if there is one."""
        return [*self.texts, *([] if self.label is None else [self.label])]


def is_text_name(name: str) -> bool:
    """Return whether this is a usual name of a column of texts."""
    return _normalize(name) in (*_TEXTS, *(second for _, second in _PAIRS))


def is_label_name(name: str) -> bool:
    """Return whether this is a usual name of a column of labels."""
    return _normalize(name) in _LABELS


def guess_columns(
    names: Sequence[str],
    *,
    text: str | None = None,
    second_text: str | None = None,
    label: str | None = None,
    more_texts: Sequence[str] = (),
    needs_label: bool = True,
    place: str = "the table",
    spell: Spell = spell_flag,
) -> Columns:
    """Choose the columns of a table: the named ones, and columns with usual names for the others.

    The second text is guessed only together with the first: a user who names the column of texts alone has no pairs.

    Args:
        names: the columns of the table.
        text: the column of texts; None: guess.
        second_text: the column of second texts; None: guess, if `text` is None too.
        label: the column of labels; None: guess, if `needs_label`.
        more_texts: the columns of further texts, which are never guessed.
        needs_label: whether labels are read.
        place: the file and the line with its column names, which begin messages.
        spell: spells options in messages.

    Raises:
        InputError: the table does not have a named column exactly once, a column is named twice, or no column has a
            usual name.
    """
    given = [name for name in (text, second_text, label, *more_texts) if name is not None]
    for name in given:
        check_column(name, names, place)
        if given.count(name) > 1:
            raise InputError(
                f"{place}: the column {quote(name)} is named twice; expected a different column for each purpose"
            )
    usual = _normalize_names(name for name in names if name not in given)
    if text is None:
        text, pair = _guess_texts(usual)
        second_text = second_text or pair
    if label is None and needs_label:
        label = _find_first(usual, _LABELS)
    for name, purpose, option in ((text, "texts", "text_column"), (label, "labels", "label_column")):
        if name is None and (needs_label or purpose == "texts"):
            also = ", ".join(map(spell, ("text_column", "second_text_column", "label_column")))
            raise InputError(
                f"{place}: no column has a usual name for {purpose}; the columns are {quote_names(names)}: name yours "
                f"with {spell(option)} (also {also}), and the columns of a file without a header line with "
                f"{spell('columns')}"
            )
    chosen = Columns(text, second_text, label, more_texts=tuple(more_texts))
    for name in chosen.names:
        check_column(name, names, place)
    return chosen


def _guess_texts(usual: dict[str, str]) -> tuple[str | None, str | None]:
    """Return the columns of the first and of the second text; None where there is none."""
    for first, second in _PAIRS:
        if first in usual and second in usual:
            return usual[first], usual[second]
    return _find_first(usual, _TEXTS), None


def _find_first(usual: dict[str, str], wanted: Iterable[str]) -> str | None:
    return next((usual[name] for name in wanted if name in usual), None)


def _normalize_names(names: Iterable[str]) -> dict[str, str]:
    """Return the columns keyed by normalized name; of equal ones, the one in lower case, or else the first."""
    usual: dict[str, str] = {}
    for name in sorted(names, key=str.islower, reverse=True):
        usual.setdefault(_normalize(name), name)
    return usual


def _normalize(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")
