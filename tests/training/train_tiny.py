"""Pretrain a tiny model, and write its final state to a file.

    python train_tiny.py RECORDS OUT.json [--backups DIR] [--every 2] [--resume] [--devices 2] [--strategy multi-worker]

OUT.json has a hash of every variable of the model, its optimizer and its metrics, and the log without its times.
"""

import argparse
import hashlib
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.training import Pretraining, run_pretraining
from bert_keras.training.backups import BackupFolder, BackupOptions
from bert_keras.training.config.sources import infer_settings, parse_assignments
from bert_keras.training.fitting import read_variables
from bert_keras.training.strategies import is_chief, make_strategy

TINY = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.hidden_dim": 16,
    "model.intermediate_dim": 32,
    "batches.batch_size": 8,
    "budget.steps": 30,
    "evaluation.every_steps": 7,
    "optimizer.learning_rate": 0.01,
    "speed.jit_compile": False,
}


class Steps(keras.callbacks.Callback):
    """Print each step, so that a test knows when to kill, and record its loss and that of each epoch."""

    def __init__(self):
        super().__init__()
        self.losses, self.epoch_losses = [], []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch_losses.append(float(logs["loss"]))

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        print(len(self.losses), flush=True)


def train(
    records, settings: dict, backup: BackupOptions, strategy: tf.distribute.Strategy | None = None, callbacks=()
) -> dict:
    """Train, and return the report."""
    defaults = infer_settings([read_manifest(folder) for folder in records])
    run = Pretraining.resolve(overrides=TINY | settings, defaults=defaults)
    steps = Steps()
    trained = run_pretraining(run, records, strategy=strategy, backup=backup, callbacks=[steps, *callbacks])
    arrays = read_variables(trained.model)
    return {
        "digests": {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()},
        "log": [without_time(line) for line in trained.log.splitlines()],
        "losses": steps.losses,
        "epoch_losses": steps.epoch_losses,
        "num_resumed": int(trained.model.optimizer.iterations.numpy()) - len(steps.losses),
        "damaged": [] if backup.folder is None else backup.folder.damaged,
    }


def main() -> None:
    """Train with the arguments of the command line, and write the report."""
    arguments = parser().parse_args()
    if arguments.devices:
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * arguments.devices)
    strategy = make_strategy(arguments.strategy)
    backups = None if arguments.backups is None else BackupFolder(arguments.backups)
    backup = BackupOptions(backups, arguments.every, arguments.resume)
    report = train(arguments.records, parse_assignments(arguments.set), backup, strategy)
    if is_chief(strategy):
        arguments.out.write_text(json.dumps(report))


def parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--backups", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--strategy", default="one-device")
    parser.add_argument("--set", action="append", default=[])
    return parser


def without_time(line: str) -> dict:
    """Return a line of the log without the values that differ between runs."""
    return {name: value for name, value in json.loads(line).items() if name != "seconds"}


if __name__ == "__main__":
    main()
