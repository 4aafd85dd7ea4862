"""Readers of data files accept mutated files or raise `InputError`; accepted text is valid Unicode.

The quick suite tests 200 inputs per reader, the slow suite 10,000.
"""

import dataclasses
import gzip
import json
import pathlib

import pytest

from bert_keras.config import PROBLEMS
from bert_keras.heads.classify.examples import read_texts as read_labelled_texts
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.pipelines.corpus.text_sources import find_sources, read_lines
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables.tables import open_table
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words, stream_tagged_words
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, encode_vocabulary, read_vocabulary
from bert_keras.training.training_data import read_training_data
from tests.fuzzing import fuzz, mutate_bytes, mutate_json
from tests.pipelines.readers.whole_tables import read_table

QUICK, LONG, SEED = 200, 10_000, 20

TABLE = [("text", "sentence2", "label"), ("a film, fine", 'he said "no"', "good"), ("two\nlines", "caf\xe9", "bad|1")]
RECORDS = [
    {"text": "a fine film", "label": "good", "score": 1.5, "labels": ["a", "b"]},
    {"text": "caf\xe9 \u4e2d", "label": 3, "score": -1, "labels": []},
    {"text": "not fine", "label": True, "score": 1e3, "labels": ["b"]},
]
WORDS = [
    {"tokens": ["Ada", "met", "Bob"], "tags": ["B-PER", "O", "B-PER"]},
    {"text": "Ada met Bob", "entities": [{"start": 0, "end": 3, "label": "PER"}, [8, 11, "PER"]]},
    {"words": ["fine"], "labels": ["O"]},
]
CONLL = "-DOCSTART- O\n\nAda NNP B-PER\nmet VBD O\nBob NNP I-PER\n\nIt\tPRP\tO\nworks\tVBZ\tO\n"
CONLLU = (
    "# sent_id = 1\n# text = Vámonos al mar\n1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n"
    "2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_\n3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_\n"
    "4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_\n5\tmar\tmar\tNOUN\t_\tNumber=Sing\t1\tobl\t_\tSpaceAfter=No\n\n"
    "1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\tSpaceAfter=No\n1.1\tva\tir\tVERB\t_\t_\t_\t_\t_\t_\n2\t.\t.\tPUNCT\t_\t_\t1\tp\t_\t_\n"
)
CONTEXT = "Ada Lovelace met Charles Babbage in 1833."
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "1", "question": "Who?", "answers": [{"text": "Ada Lovelace", "answer_start": 0}]},
                        {
                            "id": 2,
                            "question": "Where?",
                            "is_impossible": True,
                            "answers": [],
                            "plausible_answers": [{"text": "1833", "answer_start": 36}],
                        },
                    ],
                }
            ],
        }
    ],
}
FLAT = [
    {"id": 1, "question": "Who?", "context": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [0]}, "title": "A"},
    {"question": "When?", "context": CONTEXT, "answers": [{"text": "1833", "answer_start": 36}]},
    {"question": "Why?", "context": CONTEXT, "answers": {"text": [], "answer_start": []}},
]
VOCABULARY = "".join(
    f"{token}\n" for token in [*SPECIAL_TOKENS, "[unused0]", "a", "##b", "\u00e9", "\u0085", "\U0001f600"]
)


def join_table(separator):
    rows = [
        [f'"{cell}"' if "\n" in cell or '"' in cell or separator in cell else cell for cell in row] for row in TABLE
    ]
    return "\n".join(separator.join(row) for row in rows).replace('"no"', '""no""') + "\n"


def json_lines(records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def mutate_json_lines(records):
    """Return a function that mutates one record of a JSON Lines file as JSON, or the whole file as bytes."""

    def mutate(random):
        if random.random() < 0.3:
            return mutate_bytes(random, json_lines(records).encode())
        lines = [json.dumps(record).encode() for record in records]
        index = random.randrange(len(lines))
        lines[index] = mutate_json(random, records[index])
        return b"\n".join(lines)

    return mutate


def mutate_text(text):
    return lambda random: mutate_bytes(random, text.encode())


def mutate_gzip(text):
    """Return a function that mutates a gzip file or its content."""

    def mutate(random):
        content = text.encode()
        if random.random() < 0.5:
            return mutate_bytes(random, gzip.compress(content, mtime=0))
        return gzip.compress(mutate_bytes(random, content), mtime=0)

    return mutate


def read_labels(path):
    for problem, column in [
        *((problem, None) for problem in PROBLEMS),
        ("multi_label", "labels"),
        ("regression", "score"),
    ]:
        yield lambda problem=problem, column=column: read_labelled(path, problem, column)


def read_labelled(path, problem, column):
    bad = BadExamples()
    read_labelled_texts(path, FileOptions(label_column=column), problem, bad)
    bad.check()


def read_tables(path):
    yield from read_labels(path)
    yield lambda: read_table(path)
    yield lambda: list_examples(path)
    for task in ("classify", "embed"):
        yield from read_for_training(task, path)


def read_for_training(task, path):
    """Yield functions that read a file for training, with and without held-out file, with and without skipping."""
    for dev in (path, None):
        for on_error in ("stop", "skip"):
            yield lambda dev=dev, on_error=on_error: list_texts(
                read_training_data(task, path, dev, FileOptions(), on_error=on_error)
            )


def list_texts(data):
    return [data.train, data.dev, list(data.warnings), list(getattr(data.task, "labels", None) or ())]


def list_examples(path):
    with open_table(path) as table:
        return list(table.read())


def read_words(path):
    for needs_tags in (True, False):
        yield lambda needs_tags=needs_tags: read_tagged_words(path, needs_tags=needs_tags)
    yield lambda: list(stream_tagged_words(path))
    yield lambda: read_tagged_words(path, tag_column="feats" if path.suffix == ".conllu" else None)
    yield from read_for_training("tag", path)


def read_all_questions(path):
    for needs_answers in (True, False):
        yield lambda needs_answers=needs_answers: read_questions(path, needs_answers=needs_answers)
    yield from read_for_training("answer", path)


def read_texts(path):
    for field in ("text", "label"):
        yield lambda field=field: list(read_lines(find_sources(path), field=field))
    for sentences in ("lines", "split"):
        yield lambda sentences=sentences: list(FileText(find_sources(path), sentences=sentences).passages())


def read_vocabularies(path):
    yield lambda: encode_vocabulary(read_vocabulary(path)).decode()


# format: mutation, file name, function that yields the readings
READERS = {
    "csv": (mutate_text(join_table(",")), "t.csv", read_tables),
    "tsv": (mutate_text(join_table("\t")), "t.tsv", read_tables),
    "jsonl": (mutate_json_lines(RECORDS), "t.jsonl", read_tables),
    "semicolons": (mutate_text(join_table(";")), "t.csv", read_tables),
    "json array": (lambda random: mutate_json(random, RECORDS), "t.json", read_tables),
    "csv.gz": (mutate_gzip(join_table(",") * 20), "t.csv.gz", read_tables),
    "words in json": (lambda random: mutate_json(random, WORDS), "w.json", read_words),
    "words in jsonl": (mutate_json_lines(WORDS), "w.jsonl", read_words),
    "conll": (mutate_text(CONLL), "w.conll", read_words),
    "conllu": (mutate_text(CONLLU), "w.conllu", read_words),
    "squad": (lambda random: mutate_json(random, SQUAD), "q.json", read_all_questions),
    "questions in json": (lambda random: mutate_json(random, FLAT), "q.json", read_all_questions),
    "questions in jsonl": (mutate_json_lines(FLAT), "q.jsonl", read_all_questions),
    "text": (mutate_text("A line.\nCaf\u00e9 \u4e2d\r\n\nThe end\tof it.\n" * 3), "t.txt", read_texts),
    "text in jsonl": (mutate_json_lines(RECORDS), "t.jsonl", read_texts),
    "vocab.txt": (mutate_text(VOCABULARY), "vocab.txt", read_vocabularies),
}


def check_text(value) -> None:
    """Check that every string in a result can be encoded as UTF-8 and contains no NUL."""
    if isinstance(value, str):
        assert "\0" not in value
        value.encode()
    elif dataclasses.is_dataclass(value):
        check_text([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, list | tuple):
        for part in value:
            check_text(part)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a temporary folder, so that messages contain short file names."""
    monkeypatch.chdir(tmp_path)


def run_fuzz(reader: str, count: int):
    mutate, name, readings = READERS[reader]
    path = pathlib.Path(name)
    readings = list(readings(path))

    def read(content):
        path.write_bytes(content[0])
        check_text(content[1]())

    return fuzz(read, lambda random: (mutate(random), random.choice(readings)), count=count, seed=SEED)


@pytest.mark.parametrize("reader", READERS)
def test_mutated_files_are_read_or_rejected(reader):
    outcomes = run_fuzz(reader, QUICK)
    assert min(outcomes["read"], outcomes["refused"]) > 0, f"the mutations do not reach both outcomes: {outcomes}"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_many_mutated_files_are_read_or_rejected(reader):
    outcomes = run_fuzz(reader, LONG)
    print(reader, dict(outcomes))
    assert sum(outcomes.values()) == LONG
    assert min(outcomes["read"], outcomes["refused"]) > LONG // 50
