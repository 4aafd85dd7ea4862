"""Megabytes of text a second: ours beside Hugging Face's `tokenizers` and tensorflow-text's `FastBertTokenizer`.

    python benchmarks/tokenizer.py VOCAB.txt TEXT [TEXT ...] [--rounds 5] [--megabytes 8]

All in one process with two threads, in turns, each turn over the same lines. TEXT is one text a line, `.gz` or not.
Printed is the median of the rounds, and how many times as fast as Hugging Face's `encode_batch` it is, round by round.
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
    parser.add_argument("--megabytes", type=float, default=8.0, help="text of each file, from its beginning")
    arguments = parser.parse_args()
    contestants = _contestants(arguments.vocabulary)
    for path in arguments.text:
        lines = _lines(path, arguments.megabytes * 1e6)
        _race(path.name, lines, contestants, arguments.rounds)
        _race(f"{path.name}, its lines with other than ASCII", _only_other(lines), contestants, arguments.rounds)


def _contestants(vocabulary: pathlib.Path) -> dict:
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


def _race(name: str, lines: list[str], contestants: dict, rounds: int) -> None:
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):  # the first round warms up
        for contestant, run in contestants.items():
            start = time.perf_counter()
            run(lines)
            seconds[contestant].append(time.perf_counter() - start)
    baseline = next(iter(seconds.values()))[1:]
    print(f"\n{name}: {megabytes:.1f} MB, {len(lines):,} lines")
    for contestant, times in seconds.items():
        ratio = statistics.median(slow / fast for slow, fast in zip(baseline, times[1:], strict=True))
        print(f"  {contestant:<28} {megabytes / statistics.median(times[1:]):6.1f} MB/s  {ratio:5.1f} x", flush=True)


def _lines(path: pathlib.Path, num_bytes: float) -> list[str]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        return [line.decode().rstrip("\n") for line in file.readlines(int(num_bytes))]


def _only_other(lines: list[str]) -> list[str]:
    """Returns a megabyte of the lines that hold more than ASCII, again and again if need be."""
    other = [line for line in lines if not line.isascii()]
    return other * max(1, round(1e6 / max(1, sum(map(len, other)))))


if __name__ == "__main__":
    main()
