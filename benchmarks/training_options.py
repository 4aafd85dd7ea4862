"""Measure step time and peak memory of training options, relative to training with the defaults.

    python benchmarks/training_options.py RECORDS --preset tiny --steps 30 --rounds 3

Each training is `pretrain` in its own process; every round runs all of them. Prints a table of the median step time,
without the first five steps, which compile and warm up, and of the peak memory of the process, both as medians over the
rounds. Records with long sequences show the benefit of gradient checkpointing.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

OPTIONS = {
    "plain": {},
    "deterministic": {"deterministic": True},
    "gradient-checkpointing": {"speed.gradient_checkpointing": True},
    "accumulation-steps 4": {"batches.accumulation_steps": 4},
    "both": {"speed.gradient_checkpointing": True, "batches.accumulation_steps": 4},
    "no-xla": {"speed.jit_compile": False},
    "no-xla deterministic": {"speed.jit_compile": False, "deterministic": True},
    "no-xla gradient-checkpointing": {"speed.jit_compile": False, "speed.gradient_checkpointing": True},
    "dtype mixed_bfloat16": {"model.dtype_policy": "mixed_bfloat16"},
}
_WARM_UP_STEPS = 5


def main() -> None:
    """Run all trainings, or a single one with `--train`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--options", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    parser.add_argument("--train", choices=OPTIONS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train is not None:
        print(json.dumps(train(arguments)))
        return
    results = {option: [] for option in arguments.options}
    for _ in range(arguments.rounds):
        for option in arguments.options:
            command = [sys.executable, *sys.argv, f"--train={option}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[option].append(json.loads(done.stdout.splitlines()[-1]))
            print(option, results[option][-1], file=sys.stderr, flush=True)
    print("| option | s/step | x plain | peak memory, MB | x plain |\n|---|---|---|---|---|")
    medians = {
        option: [statistics.median(result[name] for result in rounds) for name in ("seconds", "bytes")]
        for option, rounds in results.items()
    }
    plain_seconds, plain_bytes = medians[arguments.options[0]]
    for option, (seconds, num_bytes) in medians.items():
        ratios = f"{seconds / plain_seconds:.2f} | {num_bytes / 1e6:,.0f} | {num_bytes / plain_bytes:.2f}"
        print(f"| {option} | {seconds:.3f} | {ratios} |")


def train(arguments: argparse.Namespace) -> dict[str, float]:
    """Train; return the median seconds per step and the peak memory."""
    import keras
    import tensorflow as tf

    from bert_keras.cli.console import get_peak_memory
    from bert_keras.pipelines.records.manifest import read_manifest
    from bert_keras.training import Pretraining, run_pretraining
    from bert_keras.training.config.sources import infer_settings

    overrides = dict(OPTIONS[arguments.train])
    if overrides.pop("deterministic", False):
        tf.config.experimental.enable_op_determinism()
    ends = []
    clock = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ends.append(time.perf_counter()))
    budget = {
        "model.preset": arguments.preset,
        "batches.batch_size": arguments.batch_size,
        "budget.steps": arguments.steps,
        "evaluation.num_batches": 1,
    }
    defaults = infer_settings([read_manifest(arguments.records)])
    run = Pretraining.resolve(overrides=budget | overrides, defaults=defaults)
    run_pretraining(run, [arguments.records], callbacks=[clock])
    steps = [end - begin for begin, end in itertools.pairwise(ends)][_WARM_UP_STEPS:]
    return {"seconds": statistics.median(steps), "bytes": get_peak_memory()}


if __name__ == "__main__":
    main()
