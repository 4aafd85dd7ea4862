"""One block of text to its shards: the whole of the work, and a pure function of block, settings and tokenizer."""

import functools
import uuid
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from bert_keras.pipelines.corpus.sentence_splitter import split_running_text
from bert_keras.pipelines.records.blocks import Block, Shard
from bert_keras.pipelines.records.examples.full_sentences import generate_full_sentences
from bert_keras.pipelines.records.examples.histogram_packing import pack_by_histogram
from bert_keras.pipelines.records.examples.sentence_pairs import (
    Pair,
    generate_next_sentence_pairs,
    generate_sentence_order_pairs,
)
from bert_keras.pipelines.records.examples.tokenized_documents import TokenizedText, tokenize_block
from bert_keras.pipelines.records.known_characters import KnownCharacters
from bert_keras.pipelines.records.manifest import COUNTS, QUALITY_COUNTS
from bert_keras.pipelines.records.record import Record, serialize_records
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenizer_spec import TokenizerSpec
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_PAIRS = {"nsp": generate_next_sentence_pairs, "sop": generate_sentence_order_pairs}
_SHUFFLE_KEY = 1  # tells the order of rows apart from whatever else is drawn for a block


class BlockWorker:
    """Makes the shards of blocks.

    Args:
        settings: what rows to make.
        tokenizer: what to make the tokenizer of, since no `BertTokenizer` can pass between processes.
        sentences: "lines" or "split", see `text.FileText`.
    """

    def __init__(self, settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str):
        self._settings, self._tokenizer = settings, _tokenizer_of(tokenizer)
        self._known_characters = KnownCharacters(tokenizer)
        self._split_sentences = split_running_text if sentences == "split" else None

    def shards(self, block: Block) -> dict[str, Shard]:
        """Returns the shard of each split that has rows.

        Raises:
            InputError: the objective is "nsp" and there is no document to draw wrong next sentences from.
        """
        settings = self._settings
        texts = tokenize_block(
            block,
            self._tokenizer.tokenize,
            unk_id=self._tokenizer.unk_id,
            known_characters=self._known_characters,
            split_sentences=self._split_sentences,
            seed=settings.seed,
            held_out_rate=settings.held_out_rate,
        )
        shards = {}
        for number, (split, text) in enumerate(texts.items()):
            if examples := list(self._examples(text)):
                rng = np.random.default_rng([settings.seed, block.index, number, _SHUFFLE_KEY])
                rows = self._packed(examples, rng) if settings.packed else examples
                shards[split] = Shard(tfrecord_bytes(serialize_records(rows)), _counts(text, rows))
        return shards

    def _examples(self, text: TokenizedText) -> Iterator[Record]:
        """Yields the examples of a split, each as a row of its own, as often as there are duplicates."""
        settings, length = self._settings, self._settings.max_sequence_length
        cls, sep = (np.array([token], np.int32) for token in (self._tokenizer.cls_id, self._tokenizer.sep_id))
        if settings.sentence_objective == "none":
            options = {"sep_id": self._tokenizer.sep_id, "keep_documents_apart": settings.keep_documents_apart}
            for _ in range(settings.duplicates):
                for ids in generate_full_sentences(text, max_sequence_length=length, **options):
                    yield Record(np.concatenate((cls, ids, sep)), ((len(ids) + 2, 0),))
            return
        pairs: Callable[..., Iterator[Pair]] = _PAIRS[settings.sentence_objective]
        options = {"seed": settings.seed, "short_sequence_rate": settings.short_sequence_rate}
        for duplicate in range(settings.duplicates):
            for a, b, c, d, label in pairs(text, max_sequence_length=length, duplicate=duplicate, **options):
                ids = np.concatenate((cls, text.ids[a:b], sep, text.ids[c:d], sep))
                yield Record(ids, ((b - a + 2, d - c + 1),), (label,))

    def _packed(self, examples: list[Record], rng: np.random.Generator) -> list[Record]:
        """Returns the examples in shared rows, in an order that is random."""
        settings = self._settings
        lengths = np.array([len(example.token_ids) for example in examples])
        rows = pack_by_histogram(
            lengths, row_length=settings.max_sequence_length, max_examples=settings.max_examples_per_sequence
        )
        return [_joined([examples[index] for index in rows[place]]) for place in rng.permutation(len(rows)).tolist()]


@functools.lru_cache(maxsize=1)  # making it and tracing its graph take half a second, also for records of one page
def _tokenizer_of(facts: TokenizerSpec) -> BertTokenizer:
    return BertTokenizer(**facts.arguments)


def tfrecord_bytes(records: Iterator[bytes]) -> bytes:
    """Returns a TFRecord file of the records, by way of TensorFlow's file system in memory: its writer needs a file."""
    path = f"ram://{uuid.uuid4().hex}"
    try:
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    finally:
        tf.io.gfile.remove(path)


def _joined(examples: list[Record]) -> Record:
    if len(examples) == 1:
        return examples[0]
    return Record(
        np.concatenate([example.token_ids for example in examples]),
        [pair for example in examples for pair in example.lengths],
        [label for example in examples for label in example.sentence_labels],
    )


def _counts(text: TokenizedText, rows: list[Record]) -> dict[str, int]:
    """Counts what a shard holds; a document that was cut into parts counts where it begins."""
    return dict(
        zip(
            (*COUNTS, *QUALITY_COUNTS),
            (
                sum(not document.part for document in text.documents),
                text.num_sentences,
                sum(len(row.lengths) for row in rows),
                len(rows),
                sum(len(row.token_ids) for row in rows),
                sum(sum(row.sentence_labels) for row in rows),
                *text.quality_counts,
            ),
            strict=True,
        )
    )
