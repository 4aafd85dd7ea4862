"""Write the artifacts that `inference.py` measures into a folder; those that exist are kept.

    python benchmarks/inference_artifacts.py WORK MINILM DATA [--models minilm base embedder] [--steps checkpoint ...]

WORK gets a folder for each model: `minilm` and `base` are classifiers, `embedder` is the model of sentence vectors.
MINILM is a folder of all-MiniLM-L6-v2; DATA contains `banking77/`, `stsb/` and `sst2/`.

The classifiers are trained, so that equal labels mean something: minilm gets a linear head that is fitted to the pooled
vectors of banking77's training texts, and of sentences of SST-2 as a 78th class. base starts with random weights and is
trained on phrases of SST-2 (10 minutes on two cores; accuracy 73 %).
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import random
import shutil
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

NUM_TEXTS, MAX_LENGTH = 500, 128
NUM_SENTENCES = 10_000
NUM_OTHER = 1000  # sentences of SST-2 for the class "other" of minilm
NUM_TRAINING = 12_000  # phrases that base is trained on
SENTIMENTS = ("negative", "positive")
EXPORT_SETTINGS = {"saved_model": {}, "onnx": {}, "tflite": {"tflite_lengths": (16, 128)}}
CALIBRATED = ("per_token", "static")  # schemes of 8-bit ONNX files; the exported one is "smoothed"
STEPS = ("checkpoint", *EXPORT_SETTINGS, "calibrated", "padded", "torch_onnx")


def read_column(path: pathlib.Path, column: int = 0, delimiter: str = ",", *, header: bool = True) -> list[str]:
    """Read a column of a table."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        rows = list(csv.reader(file, delimiter=delimiter, quoting=quoting))
    return [row[column].strip() for row in rows[header:]]


def write_texts(work: pathlib.Path, data: pathlib.Path) -> None:
    """Write the texts to label, the sentences to embed, and the texts to calibrate and to choose int8 files on."""
    banking, sst2 = read_column(data / "banking77/test.csv"), read_column(data / "sst2/dev.tsv", delimiter="\t")
    texts = sorted({text for text in (*banking, *sst2) if 3 <= len(text.split()) <= 60})
    _write_json(work / "texts.json", random.Random(0).sample(texts, NUM_TEXTS))
    stsb = [
        sentence
        for split in ("test", "dev")
        for column in (0, 1)
        for sentence in read_column(data / f"stsb/stsb-en-{split}.csv", column, header=False)
    ]
    groups = {
        name: list(dict.fromkeys(rows)) for name, rows in (("banking77", banking), ("stsb", stsb), ("sst2", sst2))
    }
    sentences = [(text, group) for group, rows in groups.items() for text in rows]
    more = sorted(set(read_column(data / "sst2/train.tsv.gz", delimiter="\t")) - set(groups["sst2"]))
    num_missing = NUM_SENTENCES - len(sentences)
    sentences += [(text, "sst2") for text in random.Random(0).sample(more, num_missing)]
    random.Random(1).shuffle(sentences)
    _write_json(
        work / "sentences.json",
        {"texts": [text for text, _ in sentences], "groups": [group for _, group in sentences]},
    )
    _write_json(
        work / "calibration_texts.json", random.Random(2).sample(read_column(data / "banking77/train.csv"), 1000)
    )


def write_checkpoint(name: str, folder: pathlib.Path, minilm: pathlib.Path, data: pathlib.Path) -> None:
    """Write a classifier, and the labels that it gives to the texts."""
    import bert_keras as bk

    write_classifier = {"minilm": write_minilm, "base": write_base}[name]
    write_classifier(folder / "classifier", minilm, data)
    texts = json.loads((folder.parent / "texts.json").read_text("utf-8"))
    answers = bk.Predictor.from_checkpoint(folder / "classifier")(texts)
    _write_json(folder / "labels.json", [answer["label"] for answer in answers])


def write_minilm(out: pathlib.Path, minilm: pathlib.Path, data: pathlib.Path) -> None:
    """Write MiniLM with a linear head for the classes of banking77 and the class "other"."""
    from sklearn.linear_model import LogisticRegression

    import bert_keras as bk
    from bert_keras.heads.classify.task import TextClassification

    train = data / "banking77/train.csv"
    other = random.Random(3).sample(read_column(data / "sst2/train.tsv.gz", delimiter="\t"), NUM_OTHER)
    texts = read_column(train) + other
    text_labels = read_column(train, 1) + ["other"] * NUM_OTHER
    labels = sorted(set(text_labels))
    tokenizer = bk.BertTokenizer.from_checkpoint(minilm)
    model = bk.BertClassifier.from_checkpoint(minilm, num_classes=len(labels), labels=labels)
    vectors = pool_texts(model, tokenizer, texts)
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    fit = LogisticRegression(max_iter=300).fit((vectors - mean) / deviation, text_labels)
    kernel = (fit.coef_ / deviation).T
    bias = fit.intercept_ - fit.coef_ @ (mean / deviation)
    # the labels stay the same, and rounding of large logits is no difference that the parity check should report
    scale = 1 / (vectors @ kernel + bias).std()
    model.classifier.kernel.assign(scale * kernel)
    model.classifier.bias.assign(scale * bias)
    task = TextClassification(labels=tuple(labels), max_sequence_length=MAX_LENGTH)
    bk.save(model, tokenizer, out, task=task.settings())


def write_base(out: pathlib.Path, minilm: pathlib.Path, data: pathlib.Path) -> None:
    """Write base, trained on phrases of SST-2 from random weights."""
    import keras

    import bert_keras as bk

    train, dev = (read_sentiments(data / "sst2" / name) for name in ("train.tsv.gz", "dev.tsv"))
    tokenizer = bk.BertTokenizer.from_checkpoint(minilm)
    keras.utils.set_random_seed(0)
    config = bk.BertConfig.from_preset("base", vocabulary_size=tokenizer.vocabulary_size)
    with tempfile.TemporaryDirectory() as untrained:
        bk.save(bk.BertClassifier(bk.BertEncoder(config), 2, labels=SENTIMENTS), tokenizer, untrained, overwrite=True)
        bk.finetune(
            untrained,
            out,
            train=random.Random(3).sample(train, NUM_TRAINING),
            dev=dev,
            num_epochs=1,
            learning_rate=5e-5,
            batch_size=32,
            max_sequence_length=MAX_LENGTH,
        )


def read_sentiments(path: pathlib.Path) -> list[dict[str, str]]:
    """Read the examples of a file of SST-2."""
    labels = (SENTIMENTS[int(label)] for label in read_column(path, 1, delimiter="\t"))
    return [
        {"text": text, "label": label} for text, label in zip(read_column(path, delimiter="\t"), labels, strict=True)
    ]


def pool_texts(model, tokenizer, texts: list[str]) -> np.ndarray:
    """Return the pooled vectors `(N, D)` of a classifier's encoder."""
    import bert_keras as bk

    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    vectors = np.empty((len(texts), model.encoder.config.hidden_dim))
    for start in range(0, len(texts), 64):
        chosen = order[start : start + 64]
        features = bk.pack(tokenizer, [texts[index] for index in chosen], max_sequence_length=MAX_LENGTH)
        vectors[chosen] = model.encoder(features)["pooled_output"]
    return vectors


def write_padded(folder: pathlib.Path) -> None:
    """Write the classifier as a graph that pads every text to 128 tokens and computes the padding."""
    import tensorflow as tf

    import bert_keras as bk

    model, tokenizer = bk.load(folder / "classifier"), bk.load_tokenizer(folder / "classifier")

    def label(text):
        features = bk.pack(tokenizer, text, max_sequence_length=MAX_LENGTH, pad_to_length=MAX_LENGTH)
        return {"label": tf.gather(tf.constant(list(model.labels)), tf.argmax(model(features)["logits"], axis=-1))}

    module = tf.Module()
    module.weights = [variable.value for variable in model.variables]
    spec = tf.TensorSpec([None], tf.string, name="text")
    function = tf.function(label, autograph=False).get_concrete_function(spec)
    tf.saved_model.save(module, str(folder / "padded"), signatures={"serving_default": function})


def write_torch_onnx(folder: pathlib.Path) -> None:
    """Export transformers' model to ONNX with PyTorch's exporter."""
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "classifier").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.ones((2, 16), dtype=torch.int64) for _ in names)
    axes = {name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}}
    path = str(folder / "torch.onnx")
    torch.onnx.export(model, example, path, input_names=names, output_names=["logits"], dynamic_axes=axes, dynamo=False)


def write_calibrated(folder: pathlib.Path, texts: list[str]) -> None:
    """Write the 8-bit ONNX files of the schemes that the quantization search tries, calibrated on texts."""
    import bert_keras as bk
    from bert_keras.export.onnx.onnx_calibrated import write_calibrated_onnx
    from bert_keras.export.onnx.onnx_calibration import make_calibration_batches, measure_ranges

    onnx = folder / "artifacts" / "onnx" / "onnx"
    predictor = bk.Predictor.from_artifact(onnx / "model.onnx")
    examples = [predictor.task.make_example(text) for text in texts]
    batches = make_calibration_batches(predictor.task.encode(predictor.tokenizer, examples))
    ranges = measure_ranges(onnx / "model.onnx", batches)
    for scheme in CALIBRATED:
        write_calibrated_onnx(onnx / "model.onnx", onnx / f"model_{scheme}.onnx", ranges, scheme)


def write_model(name: str, work: pathlib.Path, minilm: pathlib.Path, data: pathlib.Path, steps: list[str]) -> None:
    """Write the artifacts of a model that do not exist yet."""
    import bert_keras as bk

    folder, is_embedder = work / name, name == "embedder"
    folder.mkdir(exist_ok=True)
    source = folder / ("sentence_transformer" if is_embedder else "classifier")
    if "checkpoint" in steps and not source.exists():
        if is_embedder:
            shutil.copytree(minilm, source)
            shutil.copy(work / "calibration_texts.json", folder)
        else:
            write_checkpoint(name, folder, minilm, data)
    for format, settings in EXPORT_SETTINGS.items():
        is_needed = format != "tflite" or name == "minilm"
        if format in steps and is_needed and not (folder / "artifacts" / format).exists():
            bk.export_model(source, folder / "artifacts", [format], **settings)
    if "calibrated" in steps and not (folder / f"artifacts/onnx/onnx/model_{CALIBRATED[0]}.onnx").exists():
        write_calibrated(folder, json.loads((work / "calibration_texts.json").read_text("utf-8")))
    if "padded" in steps and not is_embedder and not (folder / "padded").exists():
        write_padded(folder)
    if "torch_onnx" in steps and not is_embedder and not (folder / "torch.onnx").exists():
        write_torch_onnx(folder)


def _write_json(path: pathlib.Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("minilm", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["minilm", "base", "embedder"])
    parser.add_argument("--steps", nargs="+", default=list(STEPS))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    write_texts(arguments.work, arguments.data)
    for name in arguments.models:
        write_model(name, arguments.work, arguments.minilm, arguments.data, arguments.steps)


if __name__ == "__main__":
    main()
