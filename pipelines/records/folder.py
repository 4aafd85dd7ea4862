"""Pretraining records: a folder of TFRecord shards with tokenized sentence pairs, its manifest and its tokenizer.

Nothing is masked here: masks are drawn when the records are read, new ones in every epoch.
"""

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.files import check_digest, file_digest, publish_folder, read_json, write_json
from bert_keras.pipelines.records.pairs import NUM_SPECIAL, check_pair_settings, document_examples
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.pipelines.vocabulary import vocabulary_bytes

_FORMAT = "bert_keras.pretraining_records"
_FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_COUNTS = ("num_documents", "num_sentences", "num_examples", "num_random_next", "num_tokens")
_SETTINGS = ("max_sequence_length", "short_sequence_rate", "seed")
_TOKENIZER_FACTS = ("lowercase", "vocabulary_size", "vocabulary_sha256")
_BATCH_SENTENCES = 8192  # tokenized at a time: 1 MB of text, past which the tokenizer gets no faster


def write_records(
    out: str | os.PathLike,
    documents: Iterable[list[str]],
    tokenizer: BertTokenizer,
    *,
    max_sequence_length: int,
    short_sequence_rate: float = 0.1,
    seed: int = 0,
    num_shards: int = 1,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict:
    """Tokenizes documents, draws next-sentence pairs and writes them as a folder of TFRecord shards.

    Example i goes to shard i modulo `num_shards`. All documents are held in memory as ids, about 36 bytes a piece.

    Args:
        out: the folder to publish; it appears whole or not at all.
        documents: lists of sentences (see `corpus.read_documents`).
        tokenizer: saved beside the records (`BertTokenizer.from_checkpoint(out)` reads it back); its
            vocabulary and casing are recorded too, and asked for again on reading.
        max_sequence_length: the longest example in pieces, special tokens counted.
        short_sequence_rate: the share of examples made shorter.
        seed: decides the pairs.
        num_shards: number of files.
        overwrite: replace a folder that is not empty.
        progress: called with (documents done, documents in all) after each document.

    Returns:
        The manifest, as `read_manifest` gives it.

    Raises:
        InputError: `out` may not be written, there are fewer than two documents, or a setting is out of range.
    """
    if num_shards < 1:
        raise InputError(f"num_shards is {num_shards}; expected 1 or more files")
    settings = {"max_sequence_length": max_sequence_length, "seed": seed, "short_sequence_rate": short_sequence_rate}
    names = [f"pairs-{index:05d}-of-{num_shards:05d}.tfrecord" for index in range(num_shards)]
    with publish_folder(out, overwrite=overwrite) as staging:
        documents_as_ids = list(_tokenized(documents, tokenizer))
        check_pair_settings(len(documents_as_ids), **settings)
        counts = _write_shards([staging / name for name in names], documents_as_ids, settings, progress)
        manifest = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "num_documents": len(documents_as_ids),
            "num_sentences": sum(map(len, documents_as_ids)),
            **counts,
            **settings,
            **_tokenizer_facts(tokenizer),
            "shards": [{"name": name, **file_digest(staging / name)} for name in names],
        }
        write_json(staging / _MANIFEST, manifest)
        tokenizer.save(staging)
    return manifest


def read_manifest(folder: str | os.PathLike, *, tokenizer: BertTokenizer | None = None) -> dict:
    """Reads the manifest of a records folder and checks that every shard is what was written.

    Args:
        folder: what `write_records` published.
        tokenizer: the tokenizer of the model to train; it must be the one the records were made with.

    Raises:
        InputError: this is no records folder, a shard is missing or changed, or the tokenizer is another one.
    """
    path = pathlib.Path(folder) / _MANIFEST
    manifest = read_json(path)
    if manifest.get("format") != _FORMAT or manifest.get("format_version") != _FORMAT_VERSION:
        raise InputError(
            f"{path} has format {manifest.get('format')!r}, version {manifest.get('format_version')!r}; expected "
            f"{_FORMAT!r}, version {_FORMAT_VERSION}: write the records again with this version of bert-keras"
        )
    if missing := [key for key in (*_COUNTS, *_SETTINGS, *_TOKENIZER_FACTS, "shards") if key not in manifest]:
        raise InputError(f"{path} lacks {', '.join(missing)}: copy the folder again, or write the records again")
    if tokenizer is not None:
        _check_tokenizer(manifest, tokenizer, path)
    for shard in manifest["shards"]:
        check_digest(path.parent / shard["name"], shard)
    return manifest


def shard_paths(folder: str | os.PathLike, manifest: dict) -> list[str]:
    """Returns the shards' paths in their order."""
    return [str(pathlib.Path(folder) / shard["name"]) for shard in manifest["shards"]]


def parse_records(serialized: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Reads `(B,)` records: A's and B's piece ids, `(B, pieces)` int32 ragged, and `(B,)` int32, 1 = B is random."""
    ids = tf.io.RaggedFeature(tf.int64)
    spec = {"first_ids": ids, "second_ids": ids, "is_random": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_example(serialized, spec)
    return tuple(tf.cast(parsed[name], tf.int32) for name in spec)


def _write_shards(paths: list[pathlib.Path], documents: list[list[list[int]]], settings: dict, progress) -> dict:
    """Writes the examples of all documents, one to each shard in turn, and returns what was counted."""
    num_examples = num_random_next = num_tokens = 0
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(tf.io.TFRecordWriter(str(path))) for path in paths]
        for index in range(len(documents)):
            for first_ids, second_ids, is_random in document_examples(documents, index, **settings):
                writers[num_examples % len(writers)].write(_serialized(first_ids, second_ids, is_random))
                num_examples += 1
                num_random_next += is_random
                num_tokens += len(first_ids) + len(second_ids) + NUM_SPECIAL
            if progress is not None:
                progress(index + 1, len(documents))
    return {"num_examples": num_examples, "num_random_next": num_random_next, "num_tokens": num_tokens}


def _serialized(first_ids: list[int], second_ids: list[int], is_random: int) -> bytes:
    columns = {"first_ids": first_ids, "second_ids": second_ids, "is_random": [is_random]}
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in columns.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def _tokenized(documents: Iterable[list[str]], tokenizer: BertTokenizer) -> Iterator[list[list[int]]]:
    """Yields the documents as ids, many tokenized at a time; what has no pieces is left out."""
    for batch in _document_batches(documents):
        ids = iter(tokenizer.tokenize([sentence for document in batch for sentence in document]).to_list())
        for document in batch:
            if sentences := [pieces for pieces in (next(ids) for _ in document) if pieces]:
                yield sentences


def _document_batches(documents: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    batch: list[list[str]] = []
    num_sentences = 0
    for document in documents:
        batch.append(document)
        num_sentences += len(document)
        if num_sentences >= _BATCH_SENTENCES:
            yield batch
            batch, num_sentences = [], 0
    yield batch


def _tokenizer_facts(tokenizer: BertTokenizer) -> dict:
    return {
        "lowercase": tokenizer.lowercase,
        "vocabulary_size": tokenizer.vocabulary_size,
        "vocabulary_sha256": hashlib.sha256(vocabulary_bytes(tokenizer.vocabulary)).hexdigest(),
    }


def _check_tokenizer(manifest: dict, tokenizer: BertTokenizer, path: pathlib.Path) -> None:
    facts = _tokenizer_facts(tokenizer)
    if differing := [
        f"{name} {manifest[name]} there, {here} here" for name, here in facts.items() if manifest[name] != here
    ]:
        raise InputError(
            f"{path}: the records were made with another tokenizer ({'; '.join(differing)}): "
            "use the vocabulary they were made with, or write them again with this one"
        )
