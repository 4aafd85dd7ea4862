"""Compare ELECTRA with a masked LM at equal FLOPs: same records for pretraining, same texts for fine-tuning.

    python benchmarks/electra.py RECORDS TRAIN.csv TEST.csv [--size tiny] [--steps 2000] [--seeds 3]

RECORDS is a folder of `make-records --objective none`; the files have the columns text and label (see `--columns`). The
masked LM trains for `--steps` steps, ELECTRA for the number of steps with the same FLOPs, counted by TensorFlow's
profiler in the graph of a training step. Both are fine-tuned in the same way with `--seeds` seeds. Prints JSON lines.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import bert_keras as bk
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.training import FineTuning, Pretraining, run_finetuning, run_pretraining
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.pretraining import build_model
from bert_keras.training.training_data import read_training_data

REPLACE_RATES = {"mlm": [0.8, 0.1], "electra": [0.85, 0.0]}  # the published values


def main() -> None:
    """Pretrain and fine-tune both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("test", type=pathlib.Path)
    parser.add_argument("--columns", nargs=2, default=["text", "label"])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    columns = dict(zip(("text_column", "label_column"), arguments.columns, strict=True))
    data = read_training_data("classify", arguments.train, arguments.test, FileOptions(**columns))
    task, train, test = data.task, data.train, data.dev
    budget = None
    with tempfile.TemporaryDirectory() as folder:
        for objective in ("mlm", "electra"):
            flops = count_step_flops(make_run(arguments, objective, 1), arguments.records)
            budget = budget or flops * arguments.steps
            run = make_run(arguments, objective, round(budget / flops))
            trained = run_pretraining(run, [arguments.records])
            print(
                json.dumps({"objective": objective, "gflops_a_step": flops / 1e9, "steps": run.budget.steps}),
                flush=True,
            )
            print(json.dumps(dict(trained.metrics)), flush=True)
            bk.save(trained.model, trained.tokenizer, pathlib.Path(folder, objective))
            scores = []
            for seed in range(arguments.seeds):
                settings = FineTuning(num_epochs=arguments.epochs, learning_rate=5e-4, seed=seed, keep_best=False)
                tuned = run_finetuning(task, pathlib.Path(folder, objective), train, test, settings)
                scores.append(tuned.scores["accuracy"])
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            print(json.dumps({"objective": objective, "accuracy": statistics.mean(scores), "std": spread}), flush=True)


def make_run(arguments: argparse.Namespace, objective: str, num_steps: int) -> Pretraining:
    """Return the settings of a run; runs differ in objective, steps and replacements of masked tokens."""
    overrides = {
        "model.preset": arguments.size,
        "model.objective": objective,
        "budget.steps": num_steps,
        "batches.replace_rates": REPLACE_RATES[objective],
        "optimizer.learning_rate": 1e-3,
    }
    return Pretraining.resolve(overrides=overrides, defaults=infer_settings([read_manifest(arguments.records)]))


def count_step_flops(run: Pretraining, records: pathlib.Path) -> float:
    """Count the FLOPs of a training step: forward and backward pass, without the optimizer."""
    tokenizer = bk.BertTokenizer.from_checkpoint(records)
    model = build_model(run, tokenizer.vocabulary_size)
    model.compile("sgd")
    [(features, labels)] = make_pretraining_batches(records, tokenizer, batch_size=run.batches.batch_size).take(1)

    @tf.function
    def step(features):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(features, labels, model(features, training=True))
        return tape.gradient(loss, [weight.value for weight in model.trainable_weights])

    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    graph = step.get_concrete_function(features).graph
    return tf.compat.v1.profiler.profile(graph, options=options).total_float_ops


if __name__ == "__main__":
    main()
