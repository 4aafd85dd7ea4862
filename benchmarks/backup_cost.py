"""What a backup each 50 steps costs a training.

    python benchmarks/backup_cost.py RECORDS --preset tiny --pairs 10

One `pretrain` run with a backup each 100 steps: every second stretch of 50 steps begins with a backup and has it
written beside it, the stretch after it has none. Prints the median over pairs of neighbours of what the first one takes
more, every pair, and the size of a backup.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from bert_keras.pipelines.records import read_manifest
from bert_keras.training import Pretraining, pretrain
from bert_keras.training.backups import BackupFolder
from bert_keras.training.fitting import Keeping
from bert_keras.training.of_records import settings_of_manifests

STRETCH = 50


class Stretches(keras.callbacks.Callback):
    """Notes the time at the end of every fiftieth step."""

    def __init__(self):
        super().__init__()
        self.ends = []
        self._done = 0

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        if self._done % STRETCH == 0:
            self.ends.append(time.perf_counter())


def main() -> None:
    """Trains, and prints the table's row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    settings = Pretraining.resolve(
        overrides={
            "model.preset": arguments.preset,
            "batches.batch_size": arguments.batch_size,
            "budget.steps": 2 * STRETCH * (arguments.pairs + 1),
        },
        defaults=settings_of_manifests([read_manifest(arguments.records)]),
    )
    stretches = Stretches()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        backups = BackupFolder(folder)
        pretrain(settings, [arguments.records], callbacks=[stretches], keeping=Keeping(backups, 2 * STRETCH))
        newest = backups.path / f"step-{backups.steps()[-1]:09}"
        num_bytes = sum(path.stat().st_size for path in newest.iterdir())
    seconds = [end - begin for begin, end in zip(stretches.ends[1:], stretches.ends[2:], strict=False)]
    pairs = [(seconds[place], seconds[place + 1]) for place in range(0, len(seconds) - 1, 2)]
    more = statistics.median(100 * (with_one / without - 1) for with_one, without in pairs)
    each = " ".join(f"{100 * (with_one / without - 1):+.1f}" for with_one, without in pairs)
    step = statistics.median(without for _, without in pairs) / STRETCH
    print(
        f"{arguments.preset}: {more:+.2f} % (pairs: {each}), {step:.3f} s a step, a backup has {num_bytes / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
