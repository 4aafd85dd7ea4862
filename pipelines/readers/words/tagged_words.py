"""Read sentences of tagged words from CoNLL columns, CoNLL-U and JSON, with the position of each word in the text.

Errors name the file and the line. `read_tagged_words` reads a whole file for training; `stream_tagged_words` yields
invalid sentences with their errors, and continues.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line, open_lines
from bert_keras.pipelines.readers.bad_examples import BadExamples, attempt, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.json_examples import check_is_object, read_json_array
from bert_keras.pipelines.readers.tables.raw_examples import ListedExamples, Source, describe_place, detect_format
from bert_keras.pipelines.readers.words.tagged_sentences import (
    NumberedLines,
    TaggedSentence,
    WordFile,
    split_lines,
    split_paragraphs,
    split_words,
)
from bert_keras.pipelines.readers.words.word_formats import (
    make_column_reader,
    make_conllu_reader,
    make_json_reader,
    parse_sentence,
)

__all__ = ["TaggedSentence", "read_tagged_words", "split_words", "stream_tagged_words"]

# keyed by format: how to split lines into sentences, and how to parse one
_READERS = {
    "conll": (split_paragraphs, make_column_reader),
    "conllu": (split_paragraphs, make_conllu_reader),
    "jsonl": (split_lines, make_json_reader),
}
_FORMATS = {  # keyed by file ending
    **dict.fromkeys((".conll", ".txt", ".tsv", ".iob", ".bio"), "conll"),
    ".conllu": "conllu",
    ".jsonl": "jsonl",
    ".json": "json",
}


class ReadSentence(NamedTuple):
    """A sentence of a file, or the error of an invalid one.

    Attributes:
        line: its first line, from 1.
        sentence: the sentence; None: it is invalid.
        error: the error; None: the sentence is valid.
    """

    line: int
    sentence: TaggedSentence | None
    error: InputError | None


def read_tagged_words(
    path: Source,
    *,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    format: str | None = None,
    needs_tags: bool = True,
    bad: BadExamples | None = None,
    spell: Spell = spell_flag,
) -> list[TaggedSentence]:
    """Read the sentences of a file.

    - "conll" (.conll, .txt, .tsv, .iob, .bio): one word per line, in columns separated by tabs or else by spaces; a
      blank line or a -DOCSTART- line ends a sentence. There are no comments: "#" is a word.
    - "conllu" (.conllu): CoNLL-U; empty nodes are ignored.
    - "jsonl" (.jsonl): one record per line, with a list of words ("words", "tokens") and one of tags ("tags", "labels",
      "ner_tags"), or with a "text" and its labelled spans ("entities", "spans", "labels", "label"), which are objects
      with "start", "end" and "label" or lists of these three, in characters, end exclusive. The spans become IOB2 tags
      of the words that `split_words` finds. A text with "entities" or "spans" takes precedence over lists of words.
    - "json" (.json): an array of such records.

    Args:
        path: a file in UTF-8, plain or gzip; or examples in memory, as such records.
        word_column: the column of the words, counted from 0, or from the end with negative numbers; None: the first.
            For "jsonl" the field with the list of words.
        tag_column: the column of the tags; None: the last. For "conllu" "upos" (the default), "xpos", "feats",
            "deprel" or a number. For "jsonl" the field with the tags or spans. Numbers may be strings.
        format: "conll", "conllu", "jsonl" or "json"; None: the ending of the file's name decides.
        needs_tags: whether missing tags are an error. False: all sentences have `tags=None` if the file has no tags.
        bad: collects invalid sentences for the caller; None: they are an error.
        spell: spells options in messages.

    Returns:
        The sentences in order, at least one, each with at least one word.

    Raises:
        InputError: the file cannot be read or does not have its format; the message names the file and the line.
    """
    options = {"word_column": word_column, "tag_column": tag_column, "needs_tags": needs_tags, "spell": spell}
    with collect_bad(bad) as bad:
        found = stream_tagged_words(path, format=format, **options)
        sentences = [one.sentence for one in bad.keep_good(found)]
    bad.check_any_left(len(sentences), path, "sentences")
    for sentence in sentences:
        if (sentence.tags is None) != (sentences[0].tags is None):
            with_tags, without = sorted((sentences[0], sentence), key=lambda one: one.tags is None)
            raise InputError(
                f"{describe_place(path, without.line)}: the words have no tags, but those of line {with_tags.line} do; "
                "expected tags everywhere or nowhere: tag them, or remove the others' tags"
            )
    return sentences


def stream_tagged_words(
    source: Source,
    *,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    format: str | None = None,
    needs_tags: bool = True,
    spell: Spell = spell_flag,
) -> Iterator[ReadSentence]:
    """Yield the sentences of a file, or of standard input ("-"), one by one, invalid ones with their errors.

    Args:
        source, word_column, tag_column, format, needs_tags, spell: as in `read_tagged_words`.

    Raises:
        InputError: the file cannot be read, or has no sentences.
    """
    columns = (word_column, tag_column, needs_tags, spell)
    if not isinstance(source, ListedExamples):
        format = detect_format(source, format, _FORMATS, spell=spell)
        if format == "json":
            source = read_json_array(source, as_strings=False, spell=spell)
    if isinstance(source, ListedExamples):
        file = WordFile(source.name, *columns)
        for index, record in enumerate(source.objects):
            yield ReadSentence(index, *attempt(_parse_record, record, file, describe_place(source, index), index))
        return
    split, make_reader = _READERS[format]
    is_empty = True
    with open_lines(source) as (name, lines):
        parse = make_reader(WordFile(name, *columns))
        for part in split(lines, name):
            sentence, error = attempt(_parse_part, part, parse)
            if sentence is not None or error is not None:
                is_empty = False
                yield ReadSentence(part[0].number if sentence is None else sentence.line, sentence, error)
    if is_empty:
        raise InputError(f"{name} has no sentences; expected at least one: name another file")


def _parse_record(record: object, file: WordFile, place: str, index: int) -> TaggedSentence:
    return parse_sentence(check_is_object(record, place), file, place, index)


def _parse_part(part: list[Line], parse: Callable[[NumberedLines], TaggedSentence | None]) -> TaggedSentence | None:
    for line in part:
        if line.error is not None:
            raise line.error
    return parse([(line.number, line.text) for line in part])
