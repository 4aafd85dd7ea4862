"""From one block of text to its shards: a pure function of block, settings and tokenizer."""

import functools
import uuid
from collections.abc import Iterator

import numpy as np
import sentencex
import tensorflow as tf

from bert_keras.pipelines.records.documents import Block, Shard
from bert_keras.pipelines.records.examples import (
    generate_full_sentences,
    generate_next_sentence_pairs,
    generate_sentence_order_pairs,
    pack_by_histogram,
)
from bert_keras.pipelines.records.manifest import COUNTS, QUALITY_COUNTS
from bert_keras.pipelines.records.record import Record, serialize_records
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenized_documents import KnownCharacters, TokenizedText, tokenize_block
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.tokenizer_spec import TokenizerSpec

_GENERATE_PAIRS = {"nsp": generate_next_sentence_pairs, "sop": generate_sentence_order_pairs}
_SHUFFLE_KEY = 1  # separates the order of packed sequences from everything else drawn for a block
_LANGUAGE = "en"  # for the list of abbreviations that do not end a sentence


class BlockWorker:
    """Worker that makes the shards of blocks.

    Args:
        settings: the settings of the records.
        tokenizer: the spec of the tokenizer, since a `BertTokenizer` cannot be sent to another process.
        sentences: "lines" or "split", see `FileText`.
    """

    def __init__(self, settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str):
        self._settings, self._tokenizer = settings, _make_tokenizer(tokenizer)
        self._known_characters = KnownCharacters(tokenizer)
        self._cls, self._sep = (
            np.array([index], np.int32) for index in (self._tokenizer.cls_id, self._tokenizer.sep_id)
        )
        self._split_sentences = split_running_text if sentences == "split" else None

    def make_shards(self, block: Block) -> dict[str, Shard]:
        """Return the shard of each split that has records.

        Raises:
            InputError: the objective is "nsp", and there is no other document for random next sentences.
        """
        settings = self._settings
        texts = tokenize_block(block, self._tokenizer, settings, self._known_characters, self._split_sentences)
        shards = {}
        for index, (split, text) in enumerate(texts.items()):
            if examples := list(self._generate_examples(text)):
                rng = np.random.default_rng([settings.seed, block.index, index, _SHUFFLE_KEY])
                records = self._pack(examples, rng) if settings.packed else examples
                shards[split] = Shard(_encode_tfrecord(serialize_records(records)), _count(text, records))
        return shards

    def _generate_examples(self, text: TokenizedText) -> Iterator[Record]:
        """Yield the examples of a split, each as a record."""
        settings = self._settings
        for duplicate in range(settings.duplicates):
            if settings.sentence_objective == "none":  # the same for every duplicate: only their masks will differ
                for ids in generate_full_sentences(text, settings, self._tokenizer.sep_id):
                    yield Record(np.concatenate((self._cls, ids, self._sep)), ((len(ids) + 2, 0),))
                continue
            for a, b, c, d, label in _GENERATE_PAIRS[settings.sentence_objective](text, settings, duplicate):
                ids = np.concatenate((self._cls, text.ids[a:b], self._sep, text.ids[c:d], self._sep))
                yield Record(ids, ((b - a + 2, d - c + 1),), (label,))

    def _pack(self, examples: list[Record], rng: np.random.Generator) -> list[Record]:
        """Pack examples into sequences, in random order."""
        sequences = pack_by_histogram(
            np.array([len(example.token_ids) for example in examples]),
            sequence_length=self._settings.max_sequence_length,
            max_examples=self._settings.max_examples_per_sequence,
        )
        order = rng.permutation(len(sequences)).tolist()
        return [_join([examples[index] for index in sequences[place]]) for place in order]


def split_running_text(paragraph: str) -> list[str]:
    """Split a paragraph into sentences. Only white space between them is lost.

    `sentencex` (Wikimedia, MIT) was chosen by measurement, see `docs/guide/records.md`: of three splitters it finds the
    most sentence ends of UD English EWT, and it is a hundred times as fast as pysbd.

    Args:
        paragraph: running text on one line.

    Example:
        >>> split_running_text("Mr. Smith went home. He slept.")
        ['Mr. Smith went home.', 'He slept.']
    """
    sentences = map(str.strip, sentencex.segment(_LANGUAGE, paragraph))
    return [sentence for sentence in sentences if sentence]


@functools.lru_cache(maxsize=1)  # making the tokenizer and tracing its graph take 0.5 s, even for one page of text
def _make_tokenizer(spec: TokenizerSpec) -> BertTokenizer:
    return BertTokenizer(**spec.arguments)


def _encode_tfrecord(records: Iterator[bytes]) -> bytes:
    """Return the TFRecord file of records. It is written to TensorFlow's memory: the writer needs a file."""
    path = f"ram://{uuid.uuid4().hex}"
    try:
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    finally:
        tf.io.gfile.remove(path)


def _join(examples: list[Record]) -> Record:
    if len(examples) == 1:
        return examples[0]
    return Record(
        np.concatenate([example.token_ids for example in examples]),
        [pair for example in examples for pair in example.lengths],
        [label for example in examples for label in example.sentence_labels],
    )


def _count(text: TokenizedText, records: list[Record]) -> dict[str, int]:
    """Return the counts of a shard. A document that was cut into parts counts where it starts."""
    counts = (
        sum(not document.part for document in text.documents),
        text.num_sentences,
        sum(len(record.lengths) for record in records),
        len(records),
        sum(len(record.token_ids) for record in records),
        sum(sum(record.sentence_labels) for record in records),
    )
    return dict(zip((*COUNTS, *QUALITY_COUNTS), (*counts, *text.quality_counts), strict=True))
