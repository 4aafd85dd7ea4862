r"""Time the TFLite files of an export in LiteRT: precision, length, number of threads, with and without XNNPACK.

    bert-keras export MODEL OUT --to tflite --quantize float32 float16 dynamic_int8 dynamic_int4 \
        --tflite-lengths 16 64 128
    python benchmarks/tflite.py OUT/tflite [--rounds 30] [--threads 1 2]

Every round calls each side once, in turn; the first three are warm-up. The table has the median milliseconds of a
sequence, and the ratio to the first side of the same length: the median of the rounds' ratios.
"""

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

WARM_UP = 3
XNNPACK = {"XNNPACK": OpResolverType.BUILTIN, "without": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="folder with files that end in _lengths.tflite")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*_lengths.tflite"), key=lambda path: -path.stat().st_size)
    if not files:
        parser.error(f"{arguments.folder} has no file that ends in _lengths.tflite: export with --tflite-lengths")
    print("| file | XNNPACK | threads | length | ms | ratio |\n|---|---|---|---|---|---|")
    for length in read_lengths(files[0]):
        calls = {
            (path.name, xnnpack, threads): open_file(path, length, threads, XNNPACK[xnnpack])
            for threads in arguments.threads
            for path in files
            for xnnpack in XNNPACK
        }
        times = measure(calls, arguments.rounds)
        first = next(iter(times.values()))
        for (name, xnnpack, threads), seconds in times.items():
            ratio = statistics.median(one / other for one, other in zip(seconds, first, strict=True))
            median = 1000 * statistics.median(seconds)
            print(f"| {name} | {xnnpack} | {threads} | {length} | {median:.1f} | {ratio:.2f} |", flush=True)


def read_lengths(path: pathlib.Path) -> list[int]:
    """Return the lengths of a file's signatures."""
    signatures = Interpreter(str(path)).get_signature_list()
    return sorted(int(name.removeprefix("length_")) for name in signatures)


def open_file(path: pathlib.Path, length: int, threads: int, resolver: OpResolverType) -> Callable[[], object]:
    """Return a function that runs a full sequence of random ids."""
    interpreter = Interpreter(str(path), num_threads=threads, experimental_op_resolver_type=resolver)
    run = interpreter.get_signature_runner(f"length_{length}")
    ids = np.random.default_rng(0).integers(5, 1000, (1, length), np.int32)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return lambda: run(**inputs)


def measure(calls: dict[tuple, Callable[[], object]], num_rounds: int) -> dict[tuple, list[float]]:
    """Return the seconds of each call in each round."""
    times: dict[tuple, list[float]] = {side: [] for side in calls}
    for number in range(WARM_UP + num_rounds):
        for side, call in calls.items():
            start = time.perf_counter()
            call()
            if number >= WARM_UP:
                times[side].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
