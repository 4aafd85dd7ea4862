"""Count killed trainings that resume to the same result: our backups compared with Keras's `BackupAndRestore`.

    python -m benchmarks.killed_trainings --trials 50

Each trial trains a tiny model and kills it with SIGKILL at a random moment, in every other trial while a backup is
being written; another process resumes the training. The final weights, optimizer and metrics are compared bit by bit
with an uninterrupted training. Our runs are `pretrain` with a backup every 5 steps. Keras's runs are `model.fit` on the
same model and the same batches, in the same order in every epoch, which is the best case for a callback that does not
store the position in the data: one series with a backup every 5 steps, one with a backup per epoch and
`double_checkpoint`. Prints a line per trial and a JSON line with the counts.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training.backups import BackupFolder, BackupOptions
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import infer_settings
from bert_keras.training.fitting import read_variables
from bert_keras.training.optimizers.schedules import adamw
from bert_keras.training.pretraining import build_model, run_pretraining
from tests.training.processes import kill_at_random

WORDS = "the cat sat on a mat and every dog ran off with its red hat".split()
NUM_STEPS, STEPS_AN_EPOCH, EVERY = 40, 10, 5
SETTINGS = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.hidden_dim": 16,
    "model.intermediate_dim": 32,
    "batches.batch_size": 8,
    "budget.steps": NUM_STEPS,
    "speed.jit_compile": False,
}
SIDES = {
    "ours, each 5 steps": ("ours", EVERY),
    "BackupAndRestore, each 5 steps": ("keras", EVERY),
    "BackupAndRestore, each epoch": ("keras", "epoch"),
}


class Steps(keras.callbacks.Callback):
    """Print the number of each step."""

    def __init__(self):
        super().__init__()
        self._done = 0

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        print(self._done, flush=True)


def main() -> None:
    """Run all trials, or one training with `--train`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS, metavar=("SIDE", "RECORDS", "BACKUPS", "OUT"))
    arguments = parser.parse_args()
    if arguments.train:
        side, *paths = arguments.train
        train(*SIDES[side], *map(pathlib.Path, paths))
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        stories = [[" ".join([word] * (3 + place % 6)) for place in range(12)] for word in WORDS * 3]
        tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
        write_records(folder / "records", stories, tokenizer, max_sequence_length=24)
        counts = {side: count(side, folder, arguments.trials) for side in arguments.sides}
    print(json.dumps(counts))


def count(side: str, folder: pathlib.Path, num_trials: int) -> dict[str, int]:
    """Count the outcomes of the trials of one side."""
    place = folder / side.replace(" ", "_")
    place.mkdir()
    run(side, folder / "records", place / "none", place / "expected.json").communicate()
    expected = json.loads((place / "expected.json").read_text())
    outcomes = Counter()
    for trial in range(num_trials):
        backups, out = place / f"backups_{trial}", place / f"{trial}.json"
        kill_at_random(run(side, folder / "records", backups, out), backups, trial, NUM_STEPS - 2)
        resumed = run(side, folder / "records", backups, out)
        _, errors = resumed.communicate()
        if resumed.returncode:
            outcome = "cannot be resumed"
            print(errors.strip().splitlines()[-1][:150], file=sys.stderr)
        else:
            outcome = "identical" if json.loads(out.read_text()) == expected else "different"
        outcomes[outcome] += 1
        print(f"{side}, trial {trial}: {outcome}", file=sys.stderr, flush=True)
    return dict(outcomes)


def run(side: str, *paths: pathlib.Path) -> subprocess.Popen:
    """Start a training in a new process."""
    command = [sys.executable, "-m", "benchmarks.killed_trainings", "--train", side, *map(str, paths)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def train(side: str, every: int | str, records: pathlib.Path, backups: pathlib.Path, out: pathlib.Path) -> None:
    """Train, resume from existing backups, and write a hash of the final state."""
    settings = Pretraining.resolve(overrides=SETTINGS, defaults=infer_settings([read_manifest(records)]))
    if side == "ours":
        model = run_pretraining(
            settings, [records], backup=BackupOptions(BackupFolder(backups), every, resume=True), callbacks=[Steps()]
        ).model
    else:
        keras.utils.set_random_seed(0)
        tokenizer = BertTokenizer.from_checkpoint(records)
        model = build_model(settings, tokenizer.vocabulary_size)
        model.compile(adamw(1e-3, NUM_STEPS), jit_compile=False)
        batches = make_pretraining_batches(records, tokenizer, batch_size=8, epochs=None).take(STEPS_AN_EPOCH)
        keeper = keras.callbacks.BackupAndRestore(backups, save_freq=every, double_checkpoint=True)
        callbacks = [Steps(), keeper]
        model.fit(batches, epochs=NUM_STEPS // STEPS_AN_EPOCH, callbacks=callbacks, shuffle=False, verbose=0)
    digests = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in read_variables(model).items()}
    out.write_text(json.dumps(digests))


if __name__ == "__main__":
    main()
