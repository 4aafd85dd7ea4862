"""Measure the throughput in MB/s of our tokenizer, Hugging Face's `tokenizers` and TensorFlow's `FastBertTokenizer`.

    python benchmarks/tokenizer.py VOCAB.txt TEXT [TEXT ...] [--rounds 5] [--megabytes 8]

All run in one process with two threads, alternately, on the same lines. TEXT has one text per line and may be gzip.
Prints the median over the rounds, and the median of the speed relative to Hugging Face's `encode_batch`.
"""

import argparse
import gzip
import os
import pathlib
import statistics
import time

os.environ["RAYON_NUM_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = os.environ["TF_NUM_INTRAOP_THREADS"] = "2"

import tensorflow as tf
import tensorflow_text as tf_text
from tokenizers import BertWordPieceTokenizer

from bert_keras.pipelines.text.graph.text_batches import map_in_chunks
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=8.0, help="MB of text per file, from its start")
    arguments = parser.parse_args()
    tokenizers = _make_tokenizers(arguments.vocabulary)
    for path in arguments.text:
        lines = _read_lines(path, arguments.megabytes * 1e6)
        _compare(path.name, lines, tokenizers, arguments.rounds)
        _compare(f"{path.name}, non-ASCII lines", _select_non_ascii(lines), tokenizers, arguments.rounds)


def _make_tokenizers(vocabulary: pathlib.Path) -> dict:
    ours = BertTokenizer.from_vocabulary(vocabulary)
    rust = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    fast = tf_text.FastBertTokenizer(
        list(ours.vocabulary), max_bytes_per_word=100, token_out_type=tf.int32, lower_case_nfd_strip_accents=True
    )
    return {
        "Hugging Face encode_batch": lambda lines: rust.encode_batch(lines, add_special_tokens=False),
        "FastBert, one call": lambda lines: fast.tokenize(tf.constant(lines)),
        "FastBert, both threads": lambda lines: map_in_chunks(lambda part: (fast.tokenize(part),), tf.constant(lines)),
        "ours": ours.tokenize,
        "ours, with offsets": ours.tokenize_with_offsets,
    }


def _compare(name: str, lines: list[str], tokenizers: dict, rounds: int) -> None:
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    seconds: dict[str, list[float]] = {name: [] for name in tokenizers}
    for _ in range(rounds + 1):  # the first round is a warm-up
        for system, run in tokenizers.items():
            start = time.perf_counter()
            run(lines)
            seconds[system].append(time.perf_counter() - start)
    baseline = next(iter(seconds.values()))[1:]
    print(f"\n{name}: {megabytes:.1f} MB, {len(lines):,} lines")
    for system, times in seconds.items():
        ratio = statistics.median(slow / fast for slow, fast in zip(baseline, times[1:], strict=True))
        print(f"  {system:<28} {megabytes / statistics.median(times[1:]):6.1f} MB/s  {ratio:5.1f} x", flush=True)


def _read_lines(path: pathlib.Path, num_bytes: float) -> list[str]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        return [line.decode().rstrip("\n") for line in file.readlines(int(num_bytes))]


def _select_non_ascii(lines: list[str]) -> list[str]:
    """Return a megabyte of non-ASCII lines, repeated if needed."""
    other = [line for line in lines if not line.isascii()]
    return other * max(1, round(1e6 / max(1, sum(map(len, other)))))


if __name__ == "__main__":
    main()
