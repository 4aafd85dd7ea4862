"""How far artifacts are from their checkpoint: every task, on a body of real weights, or on a random preset.

    python benchmarks/parity.py CHECKPOINT [--rows 1000] [--texts 300] [--tasks classifier tags ...] [--to ...]

CHECKPOINT is a BERT folder, or the name of a preset, whose vocabulary is then that of --vocabulary-of. Heads are new,
so their labels are near each other, which is the harder case. A line for each task and artifact: the largest
difference of a float output, and how many labels were compared and differ, by the verdict of `bert-keras export`.
"""

import argparse
import functools
import os
import pathlib
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import bert_keras as bk
from bert_keras.export.onnx.onnx_artifact import start_onnx_check
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.export.parity import probe_inputs
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import THOROUGH
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.tflite.tflite_artifact import start_tflite_file_check, tflite_length
from bert_keras.export.tflite.to_tflite import write_tflite
from bert_keras.tasks.task_loading import TASK_CLASSES, restore_task

LABELS = [f"class {number}" for number in range(7)]
TASKS = {
    "encoder": lambda encoder: encoder,
    "classifier": lambda encoder: bk.BertClassifier(encoder, 7, labels=LABELS),
    "tags": lambda encoder: bk.BertTokenClassifier(encoder, 7, labels=LABELS),
    "answers": bk.BertQuestionAnswerer,
    "embedder": bk.BertEmbedder,
    "masked_lm": bk.BertMaskedLM,
    "pretrainer": bk.BertPretrainer,
}
FORMATS = ("saved_model", "tflite", "onnx")


def verdict_of(reference, form, folder):
    """Writes an artifact and returns its verdict."""
    path = folder / f"model.{form}"
    if form == "saved_model":
        write_saved_model(reference.model, reference.tokenizer, reference.task, path)
        return start_saved_model_check(reference, path, THOROUGH).report()
    if form == "tflite":
        write_tflite(reference.model, path, length=tflite_length(reference, None))
        return start_tflite_file_check(reference, path, THOROUGH).report()
    write_onnx(reference.model, path)
    return start_onnx_check(reference, path, THOROUGH).report()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--vocabulary-of", help="a folder with a vocabulary, for a preset")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--to", nargs="+", choices=FORMATS, default=list(FORMATS))
    arguments = parser.parse_args()
    probe_inputs.draw_sequences = functools.partial(probe_inputs.draw_sequences, number=arguments.rows)
    probe_inputs.draw_texts = functools.partial(probe_inputs.draw_texts, number=arguments.texts)
    is_folder = pathlib.Path(arguments.checkpoint).is_dir()
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.checkpoint if is_folder else arguments.vocabulary_of)
    if is_folder:
        loaded = bk.load(arguments.checkpoint)
        encoder = getattr(loaded, "encoder", loaded)
    else:
        config = bk.BertConfig.from_preset(arguments.checkpoint, vocabulary_size=tokenizer.vocabulary_size)
        encoder = bk.BertEncoder(config)
    for name in arguments.tasks:
        model = TASKS[name](encoder)
        with tempfile.TemporaryDirectory() as scratch:
            has_task = type(model).__name__ in TASK_CLASSES
            reference = Reference(model, tokenizer, restore_task(scratch, model, tokenizer) if has_task else None)
            for form in arguments.to:
                start = time.monotonic()
                print_line(name, form, verdict_of(reference, form, pathlib.Path(scratch)), time.monotonic() - start)


def print_line(name, form, verdict, seconds):
    largest = max(seen["max"] for seen in verdict["outputs"].values())
    compared, differ = (sum(seen[key] for seen in verdict["labels"].values()) for key in ("compared", "differ"))
    passed = "equal" if verdict["passed"] else "DIFFERS"
    labels = f"{differ} of {compared:,} labels"
    print(
        f"{name:11} {form:12} {passed}  {verdict['num_inputs']:5,} inputs  {largest:.1e}  {labels}"
        f"  {verdict['bytes'] / 1e6:6.1f} MB  {seconds:4.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
