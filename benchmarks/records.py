"""Measure the speed and memory of `make-records`, and the padding saved by packing.

    python benchmarks/records.py VOCAB.txt TEXT.gz [--copies 10] [--workers 1 2]

Each run is a new process of `bert-keras make-records --pack`, once on the text and once on copies of it. CPU seconds
are the user and system time of all processes of a run. Every process needs seconds to start TensorFlow, so the rate per
core is computed from the difference of the two runs: MB of text divided by CPU seconds. Peak memory is the largest
resident set of a single process.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

MAX_EXAMPLES = (1, 2, 3, 4, 8, 16)


def make_records(vocabulary: pathlib.Path, texts: list[pathlib.Path], out: pathlib.Path, *options: object) -> dict:
    """Run the command; return its result with `wall_seconds` and `cpu_seconds`."""
    command = [sys.executable, "-m", "bert_keras.cli.main", "make-records", vocabulary, out, "--json", "--overwrite"]
    command += ["--text", *texts, *options]
    started = time.monotonic()
    with open(out.parent / "printed", "w+") as printed:
        process = subprocess.Popen([str(part) for part in command], stdout=printed, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(map(str, command))} exited with status {os.waitstatus_to_exitcode(status)}")
        printed.seek(0)
        result = json.load(printed)
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return {**result, "wall_seconds": time.monotonic() - started, "cpu_seconds": cpu_seconds}


def copy_text(text: pathlib.Path, number: int, folder: pathlib.Path) -> list[pathlib.Path]:
    """Copy a file several times, because `make-records` reads a file only once even if it is listed twice."""
    folder.mkdir()
    return [pathlib.Path(shutil.copy(text, folder / f"{place}-{text.name}")) for place in range(number)]


def measure_speed(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    """Print a table of the runs and the rate per core."""
    print("| text | workers | seconds | CPU seconds | peak memory | peak memory, worker |\n|---|---|---|---|---|---|")
    texts = copy_text(arguments.text, arguments.copies, folder / "texts")
    for workers in arguments.workers:
        results = []
        for part in (texts[:1], texts):
            result = make_records(arguments.vocabulary, part, folder / "out", "--pack", "--workers", workers)
            result["text_bytes"] = sum(source["bytes"] for source in result["sources"])
            results.append(result)
            memory = [result["peak_memory_bytes"], (result["worker_peak_memory_bytes"] or 0) * (workers > 1)]
            print(
                f"| {result['text_bytes'] / 1e6:,.0f} MB | {workers} | {result['wall_seconds']:.1f} | "
                f"{result['cpu_seconds']:.1f} | {memory[0] / 1e6:,.0f} MB | {memory[1] / 1e6:,.0f} MB |",
                flush=True,
            )
        short, long = results
        num_bytes, seconds = (long[name] - short[name] for name in ("text_bytes", "cpu_seconds"))
        peaks = [max(r["peak_memory_bytes"], r["worker_peak_memory_bytes"] or 0) for r in results]
        wall = long["wall_seconds"] - short["wall_seconds"]
        print(
            f"\n{workers} workers: {num_bytes / 1e6 / seconds:.1f} MB/s per core, {num_bytes / 1e6 / wall:.1f} MB/s in "
            f"total; peak memory {peaks[1] / peaks[0] - 1:+.1%}\n",
            flush=True,
        )


def measure_packing(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    """Print the fraction of real tokens for each maximum number of examples per sequence."""
    print("| max examples per sequence | sequences | real tokens |\n|---|---|---|")
    for limit in MAX_EXAMPLES:
        options = ["--pack", "--max-examples-per-sequence", limit, "--workers", "1"]
        result = make_records(arguments.vocabulary, [arguments.text], folder / "out", *options)
        share = result["num_tokens"] / result["num_records"] / result["max_sequence_length"]
        print(f"| {limit} | {result['num_records']:,} | {share:.2%} |", flush=True)


def main() -> None:
    """Parse the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--packing", action="store_true", help="also measure packing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_speed(arguments, pathlib.Path(folder))
        if arguments.packing:
            measure_packing(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
