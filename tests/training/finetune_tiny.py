"""Fine-tunes a tiny classifier and writes down the loss of each step and the scores.

python finetune_tiny.py CHECKPOINT OUT.json [--strategy mirrored] [--devices 4] [--parts 2] [--gradient-checkpointing]
    [--backups DIR] [--stop-after 11] [--resume]
"""

import argparse
import json
import os
import pathlib
import signal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

from bert_keras.errors import InterruptedTrainingError
from bert_keras.training import finetune_classifier
from bert_keras.training.backups import BackupFolder
from bert_keras.training.fitting import Keeping
from bert_keras.training.strategies import is_chief, make_strategy

WORDS = "the cat sat on a mat and every dog ran off with its red hat".split()
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(15) for length in range(1, 5)]  # 60: 8 batches of 8
LABELS = [("odd", "even", "third")[len(text.split()) % 3] for text in TEXTS]


class Steps(keras.callbacks.Callback):
    """Keeps the loss of each step, and asks for an end after some."""

    def __init__(self, stop_after: int):
        super().__init__()
        self.losses = []
        self._stop_after = stop_after

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        if len(self.losses) == self._stop_after:
            os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Fine-tunes, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--strategy", default="one-device")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--backups", type=pathlib.Path)
    parser.add_argument("--stop-after", type=int, default=0)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    if arguments.devices:
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * arguments.devices)
    strategy = make_strategy(arguments.strategy)
    kept = None if arguments.backups is None else BackupFolder(arguments.backups)
    steps = Steps(arguments.stop_after)
    report = {"losses": steps.losses}
    try:
        *_, report["scores"] = finetune_classifier(
            arguments.checkpoint,
            (TEXTS, LABELS),
            (TEXTS[::5], LABELS[::5]),
            num_epochs=3,
            batch_size=8,
            learning_rate=1e-2,
            callbacks=[steps],
            strategy=strategy,
            accumulation_steps=arguments.parts,
            gradient_checkpointing=arguments.gradient_checkpointing,
            keeping=Keeping(kept, resume=arguments.resume),
        )
    except InterruptedTrainingError:
        report["stopped"] = True
    if is_chief(strategy):
        arguments.out.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
