"""Sentences of tagged words from CoNLL columns, CoNLL-U and JSON, each word with its place in the text.

What is wrong is named by file and line. Files to learn from are read strictly; those to be answered give their bad
sentences with the error, and go on.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line, open_lines
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.lines import detect_format
from bert_keras.pipelines.readers.tables.json_rows import check_is_object, read_json_array
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source, describe_place
from bert_keras.pipelines.readers.words.column_words import make_column_reader
from bert_keras.pipelines.readers.words.conllu_words import make_conllu_reader
from bert_keras.pipelines.readers.words.json_words import make_json_reader, parse_sentence
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence, split_words
from bert_keras.pipelines.readers.words.word_files import NumberedLines, WordFile, paragraphs, single_lines

__all__ = ["TaggedSentence", "read_tagged_words", "split_words", "stream_tagged_words"]

# by format: how lines are divided, and what reads a part
_READERS = {
    "conll": (paragraphs, make_column_reader),
    "conllu": (paragraphs, make_conllu_reader),
    "jsonl": (single_lines, make_json_reader),
}
_ENDINGS = {
    **dict.fromkeys((".conll", ".txt", ".tsv", ".iob", ".bio"), "conll"),
    ".conllu": "conllu",
    ".jsonl": "jsonl",
    ".json": "json",
}


class ReadSentence(NamedTuple):
    """What was read of one place of a file: a sentence, or what is wrong with it.

    Attributes:
        line: where it begins, from 1.
        sentence: None where there is an error.
        error: None where there is none.
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
) -> list[TaggedSentence]:
    """Reads the sentences of a file.

    - "conll" (.conll, .txt, .tsv, .iob, .bio): a word a line, columns with tabs or else spaces between; a blank line
      or one with -DOCSTART- ends a sentence. There are no comments: "#" is a word.
    - "conllu" (.conllu): CoNLL-U; empty nodes are passed over.
    - "jsonl" (.jsonl): a record a line, with a list of words ("words", "tokens") and one of tags ("tags", "labels",
      "ner_tags"), or with a "text" and its marked spans ("entities", "spans", "labels", "label"), objects of "start",
      "end" and "label" or lists of these three, counted in characters, end exclusive. The spans become IOB2 tags of
      the words that `split_words` finds. "entities" or "spans" beside a text go before lists of words.
    - "json" (.json): an array of such records.

    Args:
        path: a file in UTF-8, whose name may end in .gz, too; or examples in memory, such records.
        word_column: which column holds the words, from 0 or from the end with negative numbers: by default the
            first. For "jsonl" the field of the list of words.
        tag_column: which column holds the tags: by default the last. For "conllu" "upos" (the default), "xpos",
            "feats", "deprel" or a number. For "jsonl" the field of tags or spans. Numbers may be strings.
        format: "conll", "conllu", "jsonl" or "json"; by default what the name's ending says.
        needs_tags: raise if there are no tags. False: the `tags` of all sentences are None if the file has none.
        bad: takes bad sentences, to be refused or skipped by the caller; None: they are refused here.

    Returns:
        The sentences in order, one or more, each of one word or more.

    Raises:
        InputError: the file cannot be read or is not of its format; file and line are named.
    """
    columns = {"word_column": word_column, "tag_column": tag_column}
    with collect_bad(bad) as bad:
        found = stream_tagged_words(path, **columns, format=format, needs_tags=needs_tags)
        sentences = [one.sentence for one in bad.keep_good(found)]
    bad.check_any_left(len(sentences), path, "sentence")
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
) -> Iterator[ReadSentence]:
    """Yields the sentences of a file, or of standard input ("-"), one by one, bad ones with their errors.

    Args: as `read_tagged_words`.

    Raises:
        InputError: the file cannot be read at all, or holds no sentence.
    """
    if isinstance(source, ListedExamples):
        yield from _listed_sentences(source, WordFile(source.name, word_column, tag_column, needs_tags))
        return
    form = detect_format(source, format, _ENDINGS)
    if form == "json":
        listed = read_json_array(source, spelled=False)
        yield from stream_tagged_words(listed, word_column=word_column, tag_column=tag_column, needs_tags=needs_tags)
        return
    divided, reader = _READERS[form]
    is_empty = True
    with open_lines(source) as (name, lines):
        read = reader(WordFile(name, word_column, tag_column, needs_tags))
        for part in divided(lines, name):
            found = _read_part(part, read)
            if found.sentence is not None or found.error is not None:
                is_empty = False
                yield found
    if is_empty:
        raise InputError(f"{name} holds no sentence; expected one or more: name another file")


def _listed_sentences(examples: ListedExamples, file: WordFile) -> Iterator[ReadSentence]:
    for index, record in enumerate(examples.objects):
        place = describe_place(examples, index)
        try:
            yield ReadSentence(index, parse_sentence(check_is_object(record, place), file, place, index), None)
        except InputError as error:
            yield ReadSentence(index, None, error)


def _read_part(part: list[Line], read: Callable[[NumberedLines], TaggedSentence | None]) -> ReadSentence:
    try:
        for line in part:
            if line.error is not None:
                raise line.error
        sentence = read([(line.number, line.text) for line in part])
    except InputError as error:
        return ReadSentence(part[0].number, None, error)
    return ReadSentence(part[0].number if sentence is None else sentence.line, sentence, None)
