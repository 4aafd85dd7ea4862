"""Sentences of tagged words from CoNLL columns, CoNLL-U and JSON lines, each word with its place in the text.

Files are read strictly: what is wrong is named by file and line.
"""

import os
import pathlib

from bert_keras.errors import InputError
from bert_keras.pipelines.task_files.column_words import read_columns
from bert_keras.pipelines.task_files.conllu_words import read_conllu
from bert_keras.pipelines.task_files.json_words import read_json_lines
from bert_keras.pipelines.task_files.lines import form_of
from bert_keras.pipelines.task_files.tagged_sentences import TaggedSentence, check_tags, split_words
from bert_keras.pipelines.task_files.word_files import WordFile

__all__ = ["TaggedSentence", "check_tags", "read_tagged_words", "split_words"]

_READERS = {"conll": read_columns, "conllu": read_conllu, "jsonl": read_json_lines}
_ENDINGS = {
    **dict.fromkeys((".conll", ".txt", ".tsv", ".iob", ".bio"), "conll"),
    ".conllu": "conllu",
    ".jsonl": "jsonl",
}


def read_tagged_words(
    path: str | os.PathLike,
    *,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    format: str | None = None,
    needs_tags: bool = True,
) -> list[TaggedSentence]:
    """Reads the sentences of a file.

    - "conll" (.conll, .txt, .tsv, .iob, .bio): a word a line, columns with tabs or else spaces between; a blank line
      or one with -DOCSTART- ends a sentence. There are no comments: "#" is a word.
    - "conllu" (.conllu): CoNLL-U; empty nodes are passed over.
    - "jsonl" (.jsonl): a record a line, with a list of words ("words", "tokens") and one of tags ("tags", "labels",
      "ner_tags"), or with a "text" and its marked spans ("entities", "spans", "labels", "label"), objects of "start",
      "end" and "label" or lists of these three, counted in characters, end exclusive. The spans become IOB2 tags of
      the words that `split_words` finds. "entities" or "spans" beside a text go before lists of words.

    Args:
        path: a file in UTF-8; its name may end in .gz, too.
        word_column: which column holds the words, from 0 or from the end with negative numbers: by default the
            first. For "jsonl" the field of the list of words.
        tag_column: which column holds the tags: by default the last. For "conllu" "upos" (the default), "xpos",
            "feats", "deprel" or a number. For "jsonl" the field of tags or spans. Numbers may be strings.
        format: "conll", "conllu" or "jsonl"; by default what the name's ending says.
        needs_tags: raise if there are no tags. False: the `tags` of all sentences are None if the file has none.

    Returns:
        The sentences in order, one or more, each of one word or more.

    Raises:
        InputError: the file cannot be read or is not of its format; file and line are named.
    """
    path = pathlib.Path(path)
    file = WordFile(path, word_column, tag_column, needs_tags)
    sentences = list(_READERS[form_of(path, format, _ENDINGS)](file))
    if not sentences:
        raise InputError(f"{path} holds no sentence; expected one or more: name another file")
    for sentence in sentences:
        if (sentence.tags is None) != (sentences[0].tags is None):
            with_tags, without = sorted((sentences[0], sentence), key=lambda one: one.tags is None)
            raise InputError(
                f"{path}, line {without.line}: the words have no tags, and those of line {with_tags.line} have; "
                "expected tags everywhere or nowhere: tag them, or take the others' tags out"
            )
    return sentences
