"""Which columns of a table hold the texts and the label: as the user says, or by their usual names."""

import dataclasses
from collections.abc import Iterable, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.table_rows import check_column, quote_names

# Names are compared whole, so that MNLI's `sentence1_parse` and `label1` are no text and no label.
# Lower case, `_` for a space or a hyphen; the first that a table has is taken, and a pair before a single text.
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
    """The columns that are used.

    Attributes:
        text: the column of texts.
        second_text: that of the second text of a pair; None: there are no pairs.
        label: that of labels or scores; None: it is not read.
        delimiter: the mark between the fields of a `.csv` where it is no comma; None: there is nothing to tell.
    """

    text: str
    second_text: str | None
    label: str | None
    delimiter: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns that are not None, in the order text, second text, label."""
        return [name for name in (self.text, self.second_text, self.label) if name is not None]


def is_usual_text(name: str) -> bool:
    """Whether columns of texts are often called so."""
    return _usual(name) in (*_TEXTS, *(second for _, second in _PAIRS))


def is_usual_label(name: str) -> bool:
    """Whether columns of labels are often called so."""
    return _usual(name) in _LABELS


def guess_columns(
    names: Sequence[str],
    *,
    text: str | None = None,
    second_text: str | None = None,
    label: str | None = None,
    needs_label: bool = True,
    place: str = "the table",
) -> Columns:
    """Chooses the columns of a table: those that are given, and for the others those with usual names.

    A second text is guessed together with the first or not at all: whoever names the text alone has no pairs.

    Args:
        names: the columns of the table.
        text: the column of texts; None: guess.
        second_text: the column of second texts; None: guess, if `text` is to be guessed too.
        label: the column of labels; None: guess, if it is needed.
        needs_label: whether labels are read; otherwise none is guessed.
        place: starts messages: the file, and the line that names its columns.

    Raises:
        InputError: a given column is not there once or given twice, or none has a usual name.
    """
    given = [name for name in (text, second_text, label) if name is not None]
    for name in given:
        check_column(name, names, place)
        if given.count(name) > 1:
            raise InputError(
                f"{place}: the column {quote(name)} is named for two purposes; expected one column for each"
            )
    usual = _usual_names(name for name in names if name not in given)
    if text is None:
        text, pair = _guess_texts(usual)
        second_text = second_text or pair
    if label is None and needs_label:
        label = _first(usual, _LABELS)
    for name, purpose, option in ((text, "texts", "--text-column"), (label, "labels", "--label-column")):
        if name is None and (needs_label or purpose == "texts"):
            raise InputError(_none_fits(purpose, option, names, place))
    chosen = Columns(text, second_text, label)
    for name in chosen.names:
        check_column(name, names, place)
    return chosen


def _guess_texts(usual: dict[str, str]) -> tuple[str | None, str | None]:
    """Returns the columns of the first and of the second text; None: there is none."""
    for first, second in _PAIRS:
        if first in usual and second in usual:
            return usual[first], usual[second]
    return _first(usual, _TEXTS), None


def _first(usual: dict[str, str], wanted: Iterable[str]) -> str | None:
    return next((usual[name] for name in wanted if name in usual), None)


def _usual_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the columns by their names in lower case; of equal ones, that which is spelled so, or the first."""
    usual: dict[str, str] = {}
    for name in sorted(names, key=str.islower, reverse=True):
        usual.setdefault(_usual(name), name)
    return usual


def _usual(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _none_fits(purpose: str, option: str, names: Sequence[str], place: str) -> str:
    return (
        f"{place}: no column is named as {purpose} are; the columns are {quote_names(names)}: name yours with {option} "
        "(also --text-column, --second-text-column, --label-column), and those of a file without a header line "
        "with --columns"
    )
