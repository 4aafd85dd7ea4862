"""Fine-tune pretrained models on SST-2 and banking77, to compare what their pretraining is worth.

    python benchmarks/downstream.py DATA OUT.jsonl MODEL ... [--rows sst2 banking77] [--seeds 0 1 2]
                                    [--learning-rates 5e-4]

DATA is the folder of the data sets, each MODEL a checkpoint folder, such as those of `benchmarks/learning.py --save`.
All models get the same examples in the same order, and are scored after the last epoch. Each training is a process of
its own; those that are in OUT.jsonl are skipped. Prints the mean and the range of the seeds' accuracies for each model
and learning rate. `benchmarks/downstream_results.jsonl` has the runs of the published table; there
`fast-30-0` is the recipe with masks of 15 % and batches of 32, fine-tuned without dropout, `fast-30-0-dropout` the same
with dropout 0.1, `fast-30-new` the recipe as it is now, `kh-30-0` KerasHub, `tr-30-0` transformers, and `untrained` a
`mini` of random weights (normal, standard deviation 0.02, truncated at two of them).
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finetuning import ROWS as FINETUNING_ROWS
from finetuning import read_row

ROWS = {
    "sst2": dataclasses.replace(FINETUNING_ROWS["sst2"], num_train=10_000, epochs=3),
    "banking77": dataclasses.replace(FINETUNING_ROWS["banking77"], num_train=10_003, epochs=8),
}


def main() -> None:
    """Run the missing trainings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[5e-4])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    runs = itertools.product(arguments.rows, arguments.learning_rates, arguments.models, arguments.seeds)
    if arguments.child:
        print(json.dumps(train(arguments, *next(runs))))
        return
    results = read_results(arguments.out)
    for row, rate, model, seed in sorted(runs, key=lambda run: run[3]):
        if (row, rate, model.name, seed) not in results:
            run_child(arguments, row, rate, model, seed)
    print_table(read_results(arguments.out))


def train(arguments: argparse.Namespace, name: str, rate: float, model: pathlib.Path, seed: int) -> dict:
    """Fine-tune a model once and return its score."""
    from bert_keras.training import FineTuning, run_finetuning

    row = ROWS[name]
    task, examples, dev = read_row(arguments, row)
    settings = FineTuning(
        num_epochs=row.epochs, batch_size=row.batch_size, learning_rate=rate, seed=seed, keep_best=False
    )
    score = run_finetuning(task, model, examples, dev, settings).scores["accuracy"]
    return {"row": name, "learning_rate": rate, "model": model.name, "seed": seed, "accuracy": score}


def run_child(arguments: argparse.Namespace, row: str, rate: float, model: pathlib.Path, seed: int) -> None:
    """Run one training in a child process and append its result to the file."""
    command = [sys.executable, __file__, str(arguments.data), str(arguments.out), str(model), "--child"]
    command += ["--rows", row, "--seeds", str(seed), "--learning-rates", str(rate)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    line = done.stdout.splitlines()[-1]
    with open(arguments.out, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, file=sys.stderr, flush=True)


def read_results(path: pathlib.Path) -> dict[tuple, float]:
    """Read the accuracies of earlier runs."""
    results = map(json.loads, path.read_text(encoding="utf-8").splitlines() if path.exists() else [])
    return {tuple(run[key] for key in ("row", "learning_rate", "model", "seed")): run["accuracy"] for run in results}


def print_table(results: dict[tuple, float]) -> None:
    """Print the mean, the least and the greatest accuracy of each model."""
    print("| data | learning rate | model | seeds | accuracy | range |\n|---|---|---|---|---|---|")
    for (row, rate, model), group in itertools.groupby(sorted(results), key=lambda run: run[:3]):
        scores = [results[run] for run in group]
        shown = f"{statistics.mean(scores):.4f} | {min(scores):.4f} to {max(scores):.4f}"
        print(f"| {row} | {rate:g} | {model} | {len(scores)} | {shown} |")


if __name__ == "__main__":
    main()
