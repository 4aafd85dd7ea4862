"""Fine-tune pretrained models on SST-2 and banking77, to compare what their pretraining is worth.

    python benchmarks/downstream.py DATA OUT.jsonl MODEL ... [--rows sst2 banking77] [--seeds 0 1 2]
                                    [--learning-rates 5e-4] [--num-train N] [--epochs N]

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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finetuning import ROWS as FINETUNING_ROWS
from finetuning import Row, read_row
from result_lines import read_results, run_and_append

ROWS = {
    "sst2": dataclasses.replace(FINETUNING_ROWS["sst2"], num_train=10_000, epochs=3),
    "banking77": dataclasses.replace(FINETUNING_ROWS["banking77"], num_train=10_003, epochs=8),
}
KEYS = ("row", "num_train", "epochs", "learning_rate", "model", "seed")


def main() -> None:
    """Run the missing trainings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[5e-4])
    parser.add_argument("--num-train", type=int, help="number of training texts (default: that of the row)")
    parser.add_argument("--epochs", type=int, help="number of epochs (default: that of the row)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    runs = itertools.product(arguments.rows, arguments.learning_rates, arguments.models, arguments.seeds)
    if arguments.child:
        print(json.dumps(train(arguments, *next(runs))))
        return
    results = read_accuracies(arguments.out)
    for name, rate, model, seed in sorted(runs, key=lambda run: run[3]):
        row = resize_row(arguments, name)
        if (name, row.num_train, row.epochs, rate, model.name, seed) not in results:
            options = ["--rows", name, "--seeds", seed, "--learning-rates", rate]
            options += ["--num-train", row.num_train, "--epochs", row.epochs]
            options = [arguments.data, arguments.out, model, "--child", *options]
            run_and_append(__file__, options, arguments.out)
    print_table(read_accuracies(arguments.out))


def resize_row(arguments: argparse.Namespace, name: str) -> Row:
    """Return a row with the given number of texts and epochs."""
    row = ROWS[name]
    num_train, epochs = arguments.num_train or row.num_train, arguments.epochs or row.epochs
    return dataclasses.replace(row, num_train=num_train, epochs=epochs)


def train(arguments: argparse.Namespace, name: str, rate: float, model: pathlib.Path, seed: int) -> dict:
    """Fine-tune a model once and return its score."""
    from bert_keras.training import FineTuning, run_finetuning

    row = resize_row(arguments, name)
    task, examples, dev = read_row(arguments, row)
    settings = FineTuning(
        num_epochs=row.epochs, batch_size=row.batch_size, learning_rate=rate, seed=seed, keep_best=False
    )
    score = run_finetuning(task, model, examples, dev, settings).scores["accuracy"]
    about = {"row": name, "num_train": row.num_train, "epochs": row.epochs, "learning_rate": rate}
    return {**about, "model": model.name, "seed": seed, "accuracy": score}


def read_accuracies(path: pathlib.Path) -> dict[tuple, float]:
    """Read the accuracies of earlier runs."""
    return {tuple(run[key] for key in KEYS): run["accuracy"] for run in read_results(path)}


def print_table(results: dict[tuple, float]) -> None:
    """Print the mean, the least and the greatest accuracy of each model."""
    print("| data | texts | epochs | learning rate | model | seeds | accuracy | range |\n" + "|---" * 8 + "|")
    for (row, texts, epochs, rate, model), group in itertools.groupby(sorted(results), key=lambda run: run[:-1]):
        scores = [results[run] for run in group]
        shown = f"{statistics.mean(scores):.4f} | {min(scores):.4f} to {max(scores):.4f}"
        print(f"| {row} | {texts:,} | {epochs} | {rate:g} | {model} | {len(scores)} | {shown} |")


if __name__ == "__main__":
    main()
