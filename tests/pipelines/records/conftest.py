"""Fixtures that make documents with traceable tokens and read records."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.records.manifest import list_shard_paths, read_manifest
from bert_keras.pipelines.records.record import Record, parse_records


@pytest.fixture(scope="session")
def make_documents():
    """Function that makes documents of 1 to 29 sentences of 1 to 12 tokens; token = 10,000 x document + position."""

    def make(num_documents=211, seed=0, max_sentences=29):
        rng = np.random.default_rng(seed)
        documents = []
        for index in range(num_documents):
            tokens = iter(range(index * 10_000, (index + 1) * 10_000))
            num_sentences = rng.integers(1, max_sentences + 1)
            documents.append([[next(tokens) for _ in range(rng.integers(1, 13))] for _ in range(num_sentences)])
        return documents

    return make


@pytest.fixture(scope="session")
def make_text():
    """Function that makes documents with words of the tiny vocabulary; consecutive documents differ."""

    def make(num_documents=40, seed=0, max_sentences=12):
        words = "a b c d the play un playing unable , .".split()
        rng = np.random.default_rng(seed)
        return [
            [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(rng.integers(1, max_sentences + 1))]
            for _ in range(num_documents)
        ]

    return make


@pytest.fixture(scope="session")
def read_records():
    """Function that reads the records of one split of a folder in the order of its shards."""

    def read(folder, split="train"):
        paths = list_shard_paths(folder, read_manifest(folder), split)
        return parse_to_records(record.numpy() for record in tf.data.TFRecordDataset(paths))

    return read


def parse_to_records(serialized):
    """Parse serialized records into `Record` objects with lists."""
    parsed = parse_records(tf.constant(list(serialized), tf.string))
    columns = (parsed[name].to_list() for name in ("token_ids", "lengths", "sentence_labels"))
    return [
        Record(ids, [tuple(pair) for pair in lengths], labels) for ids, lengths, labels in zip(*columns, strict=True)
    ]
