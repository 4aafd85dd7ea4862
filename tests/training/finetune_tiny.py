"""Fine-tune tiny models, and write the loss of each step, the scores and a hash of the weights for each task.

    python finetune_tiny.py CHECKPOINT OUT.json classify:4 tag:2:2
    python finetune_tiny.py CHECKPOINT OUT.json classify --strategy multi-worker

A job is a task, the devices to train it on (logical processors), and the parts of a step on each of them. OUT.json has
a report for each task. Tests that need one device alone call `make_report` where they are.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.heads.task import Task
from bert_keras.pipelines.readers.questions import Answer, Question
from bert_keras.pipelines.readers.words.tagged_words import TaggedSentence
from bert_keras.training import FineTuning, run_finetuning
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.strategies import is_chief, make_strategy

WORDS = "the cat sat on a mat and every dog ran off with its red hat".split()
PETS = ("cat", "dog")
# 60 texts, 8 batches of 8; sequences of 3 to 14 tokens, which are padded to 8 or 16
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(15) for length in (1, 2, 4, 12)]
SETTINGS = FineTuning(
    num_epochs=5, patience=2, batch_size=8, learning_rate=1e-2, weight_decay=0.1, layer_decay=0.9, warmup_ratio=0.2
)
# At 1e-2 the loss of vectors jumps up again, and rounding grows to 3e-6 of Pearson's correlation in 25 steps.
# In float64 two devices of two parts are within 1e-15 of one device; float32 on one device is 4e-6 away from both.
SETTINGS_OF = {"embed": dataclasses.replace(SETTINGS, learning_rate=2e-3)}


def classified() -> tuple[Task, list]:
    """Texts, labelled with the first pet in them."""
    pets = [[word for word in text.split() if word in PETS] for text in TEXTS]
    examples = [TextExample(text, label=found[0] if found else "none") for text, found in zip(TEXTS, pets, strict=True)]
    return TextClassification(labels=("none", *PETS)), examples


def tagged() -> tuple[Task, list]:
    """Sentences with pets and what they do, in windows of 8 words."""
    task = TokenClassification(
        labels=("B-PET", "I-PET", "O"), scheme="IOB2", max_sequence_length=10, window_overlap=3, labelled_tokens="all"
    )
    return task, [_tagged(text.split()) for text in TEXTS[:40]]


def questions() -> tuple[Task, list]:
    """Questions about the first pet of a text, some without an answer, in windows."""
    task = QuestionAnswering(max_sequence_length=12, window_overlap=2, max_answer_length=3, allows_null=True)
    return task, [_question(number, text) for number, text in enumerate(TEXTS)]


def pairs() -> tuple[Task, list]:
    """Pairs of texts, and the fraction of words that they share."""
    examples = []
    for first, second in zip(TEXTS, TEXTS[5:45], strict=False):
        ours, theirs = set(first.split()), set(second.split())
        examples.append(TextExample(first, second, 5 * len(ours & theirs) / len(ours | theirs)))
    return SentenceEmbedding(highest_score=5.0), examples


LORA = dataclasses.replace(
    SETTINGS, lora_rank=2, lora_alpha=3, learning_rate=3e-2, num_epochs=2, layer_decay=1.0, patience=0
)
SETTINGS_OF["lora"] = LORA

TASKS = {"classify": classified, "tag": tagged, "answer": questions, "embed": pairs}


class Losses(keras.callbacks.Callback):
    """Record the loss of each step: Keras's running mean over the epoch."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))


def get_settings(name: str) -> FineTuning:
    """Return the settings of a task; most tasks share them."""
    return SETTINGS_OF.get(name, SETTINGS)


def tuned(name: str, checkpoint: pathlib.Path, settings: FineTuning | None = None, **options) -> FineTuned:
    """Fine-tune on all examples of a task, and score every fifth; `options` are those of `run_finetuning`."""
    task, examples = TASKS["classify" if name == "lora" else name]()
    settings = settings or get_settings(name)
    return run_finetuning(task, checkpoint, examples, examples[::5], settings, **options)


def make_report(name: str, checkpoint: pathlib.Path, settings: FineTuning | None = None, **options) -> dict:
    """Fine-tune, and return the result in values for JSON."""
    losses = Losses()
    return describe(tuned(name, checkpoint, settings, callbacks=[losses], **options), losses)


def describe(done: FineTuned, losses: Losses) -> dict:
    """Return the report of a fine-tuning."""
    lines = [json.loads(line) for line in done.log.splitlines()]
    return {
        "losses": losses.values,
        "scores": done.scores,
        "epochs": list(done.epochs),
        "best": done.best,
        "log": [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
        "weights": digest(done.model),
    }


def digest(model: keras.Model) -> str:
    """Return a hash of all weights."""
    return hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in model.weights)).hexdigest()


def main() -> None:
    """Fine-tune, and write the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("jobs", nargs="+", type=_job)
    parser.add_argument("--strategy", default="one-device")
    arguments = parser.parse_args()
    [cpu] = tf.config.list_physical_devices("CPU")
    most = max(num_devices for _, num_devices, _ in arguments.jobs)
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * most)
    # a quarter of the time went into improving graphs that run 24 times
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy = make_strategy(arguments.strategy)
    reports = {}
    for name, num_devices, num_parts in arguments.jobs:
        if num_devices > 1:
            strategy = _mirrored(num_devices, is_first=not reports)
        settings = dataclasses.replace(get_settings(name), accumulation_steps=num_parts)
        reports[name] = make_report(name, arguments.checkpoint, settings, strategy=strategy)
    if is_chief(strategy):
        arguments.out.write_text(json.dumps(reports))


def _mirrored(num_devices: int, is_first: bool) -> tf.distribute.Strategy:
    """Return a strategy on that many devices; TensorFlow's default reduction allows one such number per process."""
    devices = [f"CPU:{number}" for number in range(num_devices)]
    reduction = None if is_first else tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)


def _job(text: str) -> tuple[str, int, int]:
    name, *numbers = text.split(":")
    num_devices, num_parts = [*map(int, numbers), 1, 1][:2]
    return name, num_devices, num_parts


def _tagged(words: list[str]) -> TaggedSentence:
    starts = [len(" ".join([*words[:place], ""])) for place in range(len(words))]
    ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
    pets = [word in PETS for word in words]
    after = [False, *pets[:-1]]
    tags = ["B-PET" if pet else "I-PET" if follows else "O" for pet, follows in zip(pets, after, strict=True)]
    return TaggedSentence(" ".join(words), tuple(words), tuple(starts), tuple(ends), tuple(tags), line=None)


def _question(number: int, text: str) -> Question:
    words = text.split()
    answers = tuple(Answer(word, text.index(word)) for word in words if word in PETS)
    return Question(f"q{number}", words[0], text, "", answers, not answers, f"line {number}")


if __name__ == "__main__":
    main()
