"""Compare the latency of a classifier, from strings to labels and of the forward pass, with transformers and ONNX.

    python benchmarks/serving.py CHECKPOINT TEXTS... [--batch-sizes 1 8] [--rounds 5] [--sides saved_model pipeline ...]

CHECKPOINT is a BERT folder or the name of a preset (then set VOCABULARY_OF to a folder with a vocabulary); it gets a
new head of two classes, whose weights do not affect the speed. TEXTS are files with one text per line (in tables the
first column); 500 texts of 3 to 60 words are sampled. Each side is a process with two threads that loads its artifact
and warms up; the sides alternate and process the texts in the same order. Prints medians over the rounds. The "ids"
sides run sequences of 1 x 128 and 8 x 128 without padding.

- saved_model: the exported SavedModel, `serving_default`
- padded: the same model and tokenizer as a graph that pads every text to 128 tokens and computes the padding
- pipeline: `transformers.pipeline("text-classification")` on PyTorch, `batch_size` as given
- saved_model_ids: the signature `ids` of the SavedModel
- onnx_ids: our ONNX file in onnxruntime
- torch_onnx_ids: transformers' model, exported by `torch.onnx.export`, in onnxruntime
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NUM_THREADS, NUM_TEXTS, LENGTH = 2, 500, 128
TEXT_SIDES = ("saved_model", "padded", "pipeline")
ID_SIDES = ("saved_model_ids", "onnx_ids", "torch_onnx_ids")
NUM_FORWARDS = {1: 20, 8: 4}


def sample_texts(files):
    """Sample 500 texts of 3 to 60 words."""
    import gzip

    texts = set()
    for path in files:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as lines:
            texts.update(line.split("\t")[0].strip().strip('"') for line in lines)
    candidates = sorted(text for text in texts if 3 <= len(text.split()) <= 60)
    return random.Random(0).sample(candidates, NUM_TEXTS)


def write_artifacts(checkpoint, folder):
    """Write the artifacts of all sides."""
    import numpy as np
    import tensorflow as tf

    import bert_keras as bk
    from bert_keras.export.onnx.to_onnx import write_onnx
    from bert_keras.export.saved_model.to_saved_model import write_saved_model
    from bert_keras.tasks.text_classification import TextClassification

    if pathlib.Path(checkpoint).is_dir():
        model = bk.BertClassifier.from_checkpoint(checkpoint, num_classes=2, labels=["no", "yes"])
        tokenizer = bk.BertTokenizer.from_checkpoint(checkpoint)
    else:
        tokenizer = bk.BertTokenizer.from_checkpoint(os.environ["VOCABULARY_OF"])
        config = bk.BertConfig.from_preset(checkpoint, vocabulary_size=tokenizer.vocabulary_size)
        model = bk.BertClassifier(bk.BertEncoder(config), 2, labels=["no", "yes"])
    task = TextClassification(labels=("no", "yes"), max_sequence_length=LENGTH)
    bk.save(model, tokenizer, folder / "checkpoint", task=task.settings())
    write_saved_model(model, tokenizer, task, folder / "saved_model")
    write_onnx(model, folder / "ours.onnx")

    def padded(text):
        features = bk.pack(tokenizer, text, max_sequence_length=LENGTH, pad_to_length=LENGTH)
        return {"label": tf.gather(tf.constant(["no", "yes"]), tf.argmax(model(features)["logits"], axis=-1))}

    module = tf.Module()
    module.weights = [variable.value for variable in model.variables]
    spec = tf.TensorSpec([None], tf.string, name="text")
    function = tf.function(padded, autograph=False).get_concrete_function(spec)
    tf.saved_model.save(module, str(folder / "padded"), signatures={"serving_default": function})
    np.save(folder / "ids.npy", np.random.default_rng(0).integers(1000, 20_000, (8, LENGTH)).astype(np.int32))


def write_torch_onnx(folder):
    """Export transformers' model to ONNX with PyTorch's exporter."""
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "checkpoint").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.ones((2, 16), dtype=torch.int64) for _ in names)
    axes = {name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}}
    path = str(folder / "torch.onnx")
    torch.onnx.export(model, example, path, input_names=names, output_names=["logits"], dynamic_axes=axes, dynamo=False)


def load_side(side, folder):
    """Return a function that runs a side on a batch of texts or ids."""
    if side == "pipeline":
        import torch
        import transformers

        torch.set_num_threads(NUM_THREADS)
        pipe = transformers.pipeline("text-classification", str(folder / "checkpoint"), device="cpu")
        return lambda texts: [answer["label"] for answer in pipe(texts, batch_size=len(texts))]
    if side.endswith("onnx_ids"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = NUM_THREADS
        path = folder / ("torch.onnx" if side.startswith("torch") else "ours.onnx")
        session = onnxruntime.InferenceSession(str(path), options)
        types = {entry.name: entry.type[7:-1] for entry in session.get_inputs()}
        return lambda inputs: session.run(None, {name: inputs[name].astype(types[name]) for name in types})
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    tf.config.threading.set_intra_op_parallelism_threads(NUM_THREADS)
    model = tf.saved_model.load(str(folder / side.removesuffix("_ids")))
    if side.endswith("_ids"):
        function = model.signatures["ids"]
        return lambda inputs: function(**{n: tf.constant(v) for n, v in inputs.items()})["logits"].numpy()
    function = model.signatures["serving_default"]
    return lambda texts: [label.decode() for label in function(text=tf.constant(texts))["label"].numpy()]


def run_side(side, folder):
    """Run the process of a side: read a batch size per line, print seconds and labels as JSON."""
    import numpy as np

    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    ids = np.load(folder / "ids.npy")
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    run = load_side(side, folder)
    for line in sys.stdin:
        size = int(line)
        start, labels = time.perf_counter(), []
        if side in TEXT_SIDES:
            for begin in range(0, len(texts), size):
                labels += run(texts[begin : begin + size])
            seconds = time.perf_counter() - start
        else:
            for _ in range(NUM_FORWARDS[size]):
                run({name: values[:size] for name, values in inputs.items()})
            seconds = (time.perf_counter() - start) / NUM_FORWARDS[size]
        print(json.dumps({"seconds": seconds, "labels": labels}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", default=[*TEXT_SIDES, *ID_SIDES])
    parser.add_argument("--work", nargs=2, metavar=("SIDE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return run_side(arguments.work[0], pathlib.Path(arguments.work[1]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "texts.json").write_text(json.dumps(sample_texts(arguments.texts)), encoding="utf-8")
        write_artifacts(arguments.checkpoint, folder)
        if "torch_onnx_ids" in arguments.sides:
            write_torch_onnx(folder)
        print_table(measure(arguments, folder))
    return None


def measure(arguments, folder):
    """Return the seconds of every round, keyed by side and batch size."""
    command = [sys.executable, __file__, arguments.checkpoint, "--work"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": str(NUM_THREADS)}
    workers = {
        side: subprocess.Popen([*command, side, str(folder)], **pipes, env=environment) for side in arguments.sides
    }

    def ask(side, size):
        print(size, file=workers[side].stdin, flush=True)
        return json.loads(workers[side].stdout.readline())

    seconds, labels = {}, {}
    for number in range(arguments.rounds + 1):
        for size in arguments.batch_sizes:
            for side in arguments.sides:
                answer = ask(side, size)
                if number:  # the first round is a warm-up
                    seconds.setdefault((side, size), []).append(answer["seconds"])
                if side in TEXT_SIDES:
                    labels.setdefault(side, answer["labels"])
    for side, side_labels in labels.items():
        num_equal = sum(one == other for one, other in zip(side_labels, next(iter(labels.values())), strict=True))
        print(f"{side}: {num_equal} of {len(side_labels)} labels equal those of {next(iter(labels))}")
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return seconds


def print_table(seconds):
    """Print texts/s or milliseconds per forward pass, and the ratio to the first side of the same kind."""
    for (side, size), rounds in sorted(seconds.items(), key=lambda entry: (entry[0][0] in ID_SIDES, entry[0][1])):
        is_text = side in TEXT_SIDES
        first = next(other for other, other_size in seconds if other_size == size and (other in TEXT_SIDES) == is_text)
        ratios = [mine / theirs for mine, theirs in zip(rounds, seconds[first, size], strict=True)]
        median = statistics.median(rounds)
        speed = f"{NUM_TEXTS / median:8.1f} texts/s" if is_text else f"{1000 * median:8.1f} ms"
        spread = f"{1000 * min(rounds):.0f}-{1000 * max(rounds):.0f} ms"
        print(f"batch {size:2}  {side:16} {speed}  {statistics.median(ratios):5.2f} x the time of {first}  ({spread})")


if __name__ == "__main__":
    main()
