"""Measure the cost of a backup every 50 steps.

    python benchmarks/backup_cost.py RECORDS --preset tiny --pairs 10

Runs `pretrain` once with a backup every 100 steps, so that every other interval of 50 steps starts with a backup, which
is written during the interval. Prints the extra time of these intervals relative to the next one, as the median over
all pairs, in wall-clock time and in processor time, followed by every pair. Other work on the machine can change an
interval by more than a backup does, so the script also times ten separate backups of the trained model: the copy, which
blocks the training, and the processor time of the whole backup.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.training import Pretraining, run_pretraining
from bert_keras.training.backups import BackupFolder, BackupOptions, TrainingState
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.fitting import read_variables

INTERVAL = 50


class IntervalTimer(keras.callbacks.Callback):
    """Record the time at the end of every 50th step."""

    def __init__(self):
        super().__init__()
        self.ends = []
        self._done = 0

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        if self._done % INTERVAL == 0:
            self.ends.append((time.perf_counter(), time.process_time()))


def main() -> None:
    """Train and print the results."""
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
            "budget.steps": 2 * INTERVAL * (arguments.pairs + 1),
        },
        defaults=infer_settings([read_manifest(arguments.records)]),
    )
    timer = IntervalTimer()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        backups = BackupFolder(folder)
        backup = BackupOptions(backups, 2 * INTERVAL)
        trained = run_pretraining(settings, [arguments.records], callbacks=[timer], backup=backup)
        separate = [time_backup(trained.model, backups, number) for number in range(1, 11)]
        num_bytes = sum(path.stat().st_size for path in (backups.path / "step-000000010").iterdir())
    for clock, name in enumerate(("wall-clock time", "processor time")):
        ends = [end[clock] for end in timer.ends][1:]
        seconds = [end - begin for begin, end in itertools.pairwise(ends)]
        pairs = list(zip(seconds[::2], seconds[1::2], strict=False))
        costs = [100 * (with_one / without - 1) for with_one, without in pairs]
        step = statistics.median(without for _, without in pairs) / INTERVAL
        each = " ".join(f"{cost:+.1f}" for cost in costs)
        print(f"{arguments.preset}, {name}: {statistics.median(costs):+.2f} % (pairs: {each}), {step:.3f} s/step")
    copy, whole, work = (statistics.median(one) for one in zip(*separate, strict=True))
    print(
        f"backup of {num_bytes / 1e6:.0f} MB: copied in {copy:.3f} s, written after {whole:.2f} s, {work:.2f} s of "
        f"processor time, which is {100 * work / (INTERVAL * step):.2f} % of {INTERVAL} steps"
    )


def time_backup(model, backups: BackupFolder, number: int) -> tuple[float, float, float]:
    """Return the seconds of the copy and of the whole backup, and the processor time."""
    begin, work = time.perf_counter(), time.process_time()
    arrays = read_variables(model)
    copied = time.perf_counter()
    backups.write(TrainingState(number, arrays, {}))
    return copied - begin, time.perf_counter() - begin, time.process_time() - work


if __name__ == "__main__":
    main()
