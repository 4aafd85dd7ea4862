"""From one block of text to its shards: a pure function of block, settings and tokenizer.

"nsp" follows Google's `create_pretraining_data.py` with two differences. The pairs of a document are a pure function of
(seed, document number, text of its block), so blocks can be processed in any order. The shorter length is drawn for a
sequence instead of a whole document, so `short_sequence_rate` is the share of short sequences. "sop" follows ALBERT,
and full sentences FULL-SENTENCES and DOC-SENTENCES of RoBERTa (Liu et al. 2019, 4.2).

Segments are ranges of the flat array of ids: a pair is five numbers, and nothing is copied before it is written.
"""

import bisect
import collections
import functools
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import sentencex
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.records.documents import Block, Shard
from bert_keras.pipelines.records.manifest import COUNTS, QUALITY_COUNTS
from bert_keras.pipelines.records.record import Record, serialize_records
from bert_keras.pipelines.records.settings import NUM_SPECIAL, RecordSettings
from bert_keras.pipelines.records.tokenized_documents import Document, KnownCharacters, TokenizedText, tokenize_block
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_SHUFFLE_KEY = 1  # separates the order of packed sequences from everything else drawn for a block
_LANGUAGE = "en"  # for the list of abbreviations that do not end a sentence
_RANDOM_NEXT_RATE = 0.5
_SWAP_RATE = 0.5


class Pair(NamedTuple):
    """Two ranges of `TokenizedText.ids`.

    `label`: 0 = the second segment follows the first; 1 = it is random ("nsp"), or the two are swapped ("sop").
    """

    first_start: int
    first_end: int
    second_start: int
    second_end: int
    label: int


def generate_next_sentence_pairs(text: TokenizedText, settings: RecordSettings, duplicate: int = 0) -> Iterator[Pair]:
    """Yield the next-sentence pairs of all documents in order.

    Sentences are collected until they fill a sequence, and a random cut makes A and B. Half of the time B is replaced
    by sentences of another document; the replaced sentences are used for the next pair, so no text is lost. A single
    sentence has no B and always gets a random one, so more than half of the pairs of short documents are random.

    Args:
        text: the documents, and `others` for random sentences.
        settings: the settings of the records. Their seed and the number of the document determine everything random.
        duplicate: number of the pass over the documents; each pass gives other pairs.

    Raises:
        InputError: there is only one document, and no other one for random next sentences.
    """
    if not text.documents:
        return
    documents = [*text.documents, *text.others]
    if len(documents) < 2:
        raise InputError(
            f"the text has {documents[0].number + 1} document(s), and no other one is available for the last; expected "
            "at least two, since random next sentences come from another document: put a blank line between the "
            "documents of a file, pass more files, or choose the objective sop or none"
        )
    max_tokens = settings.max_sequence_length - NUM_SPECIAL
    for index, document in enumerate(text.documents):
        rng = _make_rng(settings, document, duplicate)
        start = document.start
        while start < document.end:
            target = _draw_length(settings, rng)
            end = _find_end(text.starts, start, document.end, target)
            cut = start + 1 if end - start == 1 else int(rng.integers(start + 1, end))
            first = text.starts[start], text.starts[cut]
            is_random = cut == end or rng.random() < _RANDOM_NEXT_RATE
            if is_random:
                second = _draw_segment(text.starts, documents, index, target - first[1] + first[0], rng)
            else:
                second = text.starts[cut], text.starts[end]
            yield Pair(*_truncate(*first, *second, max_tokens, rng), int(is_random))
            start = cut if is_random else end


def generate_sentence_order_pairs(text: TokenizedText, settings: RecordSettings, duplicate: int = 0) -> Iterator[Pair]:
    """Yield the sentence-order pairs of all documents: two consecutive segments, swapped half of the time.

    A single sentence is cut at a random token. A single token has no order and is dropped. For the arguments see
    `generate_next_sentence_pairs`.
    """
    max_tokens = settings.max_sequence_length - NUM_SPECIAL
    for document in text.documents:
        rng = _make_rng(settings, document, duplicate)
        start = document.start
        while start < document.end:
            end = _find_end(text.starts, start, document.end, _draw_length(settings, rng))
            first, last = text.starts[start], text.starts[end]
            cut = text.starts[int(rng.integers(start + 1, end))] if end - start > 1 else 0
            start = end
            if last - first > 1:
                cut = cut or int(rng.integers(first + 1, last))
                ranges = _truncate(first, cut, cut, last, max_tokens, rng)
                is_swapped = rng.random() < _SWAP_RATE
                yield Pair(*ranges[2:], *ranges[:2], 1) if is_swapped else Pair(*ranges, 0)


def _make_rng(settings: RecordSettings, document: Document, duplicate: int) -> np.random.Generator:
    return np.random.default_rng([settings.seed, document.number, duplicate, document.part])


def _draw_length(settings: RecordSettings, rng: np.random.Generator) -> int:
    max_tokens = settings.max_sequence_length - NUM_SPECIAL
    return int(rng.integers(2, max_tokens + 1)) if rng.random() < settings.short_sequence_rate else max_tokens


def _find_end(starts: list[int], start: int, limit: int, target: int) -> int:
    """Return the end of the shortest range of sentences from `start` with `target` tokens, at most `limit`."""
    return min(max(bisect.bisect_left(starts, starts[start] + target, start, limit + 1), start + 1), limit)


def _draw_segment(
    starts: list[int], documents: list[Document], index: int, target: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Draw a range of about `target` tokens from a random document other than `index`."""
    other_index = int(rng.integers(len(documents) - 1))
    other = documents[other_index + (other_index >= index)]
    start = other.start + int(rng.integers(other.end - other.start))
    return starts[start], starts[_find_end(starts, start, other.end, target)]


def _truncate(
    first_start: int, first_end: int, second_start: int, second_end: int, max_tokens: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Truncate the longer segment until both fit, removing each token from the front or the back at random.

    Google's `truncate_seq_pair` in closed form: its coin flips for single tokens are one binomial draw.
    """
    num_first, num_second = first_end - first_start, second_end - second_start
    left_second = min(num_second, max(max_tokens // 2, max_tokens - num_first))
    left_first = min(num_first, max_tokens - left_second)
    first_start += int(rng.binomial(num_first - left_first, 0.5))
    second_start += int(rng.binomial(num_second - left_second, 0.5))
    return first_start, first_start + left_first, second_start, second_start + left_second


def generate_full_sentences(text: TokenizedText, settings: RecordSettings, sep_id: int) -> Iterator[np.ndarray]:
    """Yield the tokens of each sequence without [CLS] and the last [SEP]. Each token is in exactly one sequence.

    A sequence gets whole sentences until the next one does not fit. A sentence longer than a sequence starts a new
    sequence and fills as many as it needs. A [SEP] separates documents in a sequence.

    Args:
        text: the documents.
        settings: the settings of the records. Their maximum length includes [CLS] and every [SEP].
        sep_id: the id of [SEP].
    """
    room = settings.max_sequence_length - 2  # [CLS] ... [SEP]
    groups = [[document] for document in text.documents] if settings.keep_documents_apart else [text.documents]
    for documents in groups:
        ids, starts, ends = _join_documents(text, documents, sep_id)
        index, end = 0, 0  # the next sentence, and the end of the last sequence
        while index < len(ends):
            begin = max(starts[index], end)
            last = bisect.bisect_right(ends, begin + room) - 1
            end = ends[last] if last >= index else begin + room  # of a sentence that is longer than a sequence
            yield ids[begin:end]
            index = max(index, last + 1)


def _join_documents(
    text: TokenizedText, documents: list[Document], sep_id: int
) -> tuple[np.ndarray, list[int], list[int]]:
    """Return the tokens of documents with a [SEP] after each, and where each sentence starts and ends in them."""
    parts, starts, ends, length = [np.zeros(0, np.int32)], [], [], 0
    for document in documents:
        bounds = text.starts[document.start : document.end + 1]
        parts += [text.ids[bounds[0] : bounds[-1]], np.array([sep_id], np.int32)]
        moved = [length + bound - bounds[0] for bound in bounds]
        starts += moved[:-1]
        ends += moved[1:]
        length = moved[-1] + 1
    return np.concatenate(parts), starts, ends


def pack_by_histogram(lengths: np.ndarray, *, sequence_length: int, max_examples: int) -> list[list[int]]:
    """Return the examples of each sequence, longest first, as indices. Each example is in exactly one sequence.

    Best fit, longest first, on the histogram of lengths, as in "Efficient Sequence Packing without Cross-contamination"
    (Krell et al. 2021): sequences with the same lengths are counted instead of listed, so the work depends on the
    length of a sequence, not on the number of examples.

    Args:
        lengths: `(examples,)` integers, from 1 to `sequence_length`.
        sequence_length: maximum sum of the lengths in a sequence.
        max_examples: maximum number of examples in a sequence.
    """
    unpacked = collections.defaultdict(collections.deque)
    for index, length in enumerate(lengths.tolist()):
        unpacked[length].append(index)
    histogram = {length: len(indices) for length, indices in unpacked.items()}
    return [
        [unpacked[length].popleft() for length in pattern]
        for pattern, count in _find_patterns(histogram, sequence_length, max_examples)
        for _ in range(count)
    ]


def _find_patterns(
    histogram: dict[int, int], sequence_length: int, max_examples: int
) -> list[tuple[tuple[int, ...], int]]:
    """Return each pattern, the lengths in a sequence, with the number of such sequences."""
    closed: list[tuple[tuple[int, ...], int]] = []
    open_by_room: dict[int, list[tuple[tuple[int, ...], int]]] = collections.defaultdict(list)

    def add(pattern: tuple[int, ...], count: int) -> None:
        room = sequence_length - sum(pattern)
        (open_by_room[room] if room and len(pattern) < max_examples else closed).append((pattern, count))

    for length in sorted(histogram, reverse=True):
        left = histogram[length]
        for room in range(length, sequence_length + 1):
            while left and open_by_room.get(room):
                pattern, count = open_by_room[room].pop()
                repeats = min(room // length, max_examples - len(pattern), left)
                used = min(count, left // repeats)
                if used < count:
                    open_by_room[room].append((pattern, count - used))
                add(pattern + (length,) * repeats, used)
                left -= used * repeats
        while left:  # new sequences, each with as many examples of this length as fit
            repeats = min(sequence_length // length, max_examples, left)
            add((length,) * repeats, left // repeats)
            left %= repeats
    return closed + [pattern for patterns in open_by_room.values() for pattern in patterns]


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
        is_nsp = settings.sentence_objective == "nsp"
        generate_pairs = generate_next_sentence_pairs if is_nsp else generate_sentence_order_pairs
        for duplicate in range(settings.duplicates):
            if settings.sentence_objective == "none":  # the same for every duplicate: only their masks will differ
                for ids in generate_full_sentences(text, settings, self._tokenizer.sep_id):
                    yield Record(np.concatenate((self._cls, ids, self._sep)), ((len(ids) + 2, 0),))
                continue
            for a, b, c, d, label in generate_pairs(text, settings, duplicate):
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
