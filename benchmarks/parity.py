"""Measure the differences between exported artifacts and their checkpoint, for every task.

    python benchmarks/parity.py CHECKPOINT [--sequences 1000] [--texts 300] [--tasks classifier tags ...] [--to ...]

CHECKPOINT is a BERT folder, or the name of a preset with the vocabulary of --vocabulary-of. The heads are randomly
initialized, so that the scores of labels are close to each other, which is the harder case. Prints a line per task and
artifact from the parity check of `bert-keras export`: the largest difference of a float output, and the number of
different labels.
"""

import argparse
import functools
import os
import pathlib
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import bert_keras as bk
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.export.onnx.onnx_artifact import start_onnx_check
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.export.parity import probe_inputs
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import THOROUGH_PROBES
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.tflite.tflite_artifact import choose_length, start_tflite_file_check
from bert_keras.export.tflite.to_tflite import write_tflite
from bert_keras.heads.known_heads import find_finetuned_head

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


def check_parity(reference: Reference, format: str, folder: pathlib.Path) -> dict:
    """Write an artifact and return its parity report."""
    path = folder / f"model.{format}"
    if format == "saved_model":
        write_saved_model(reference.model, reference.tokenizer, reference.task, path)
        return start_saved_model_check(reference, path, THOROUGH_PROBES).report()
    if format == "tflite":
        write_tflite(reference.model, path, length=choose_length(reference, None))
        return start_tflite_file_check(reference, path, THOROUGH_PROBES).report()
    write_onnx(reference.model, path)
    return start_onnx_check(reference, path, THOROUGH_PROBES).report()


def load_encoder(checkpoint: str, tokenizer: bk.BertTokenizer) -> bk.BertEncoder:
    """Load the encoder of a folder, or create one from a preset."""
    if pathlib.Path(checkpoint).is_dir():
        model = bk.load(checkpoint)
        return getattr(model, "encoder", model)
    return bk.BertEncoder(bk.BertConfig.from_preset(checkpoint, vocabulary_size=tokenizer.vocabulary_size))


def print_line(name: str, format: str, report: dict, seconds: float) -> None:
    """Print the line of a task and an artifact."""
    largest = max(output["max"] for output in report["outputs"].values())
    compared, differ = (sum(counts[key] for counts in report["labels"].values()) for key in ("compared", "differ"))
    passed = "equal" if report["passed"] else "DIFFERS"
    labels = f"{differ} of {compared:,} labels differ"
    print(
        f"{name:11} {format:12} {passed}  {report['num_inputs']:5,} inputs  {largest:.1e}  {labels}"
        f"  {report['bytes'] / 1e6:6.1f} MB  {seconds:4.0f} s",
        flush=True,
    )


def main() -> None:
    """Parse the arguments and check every task and format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a BERT folder, or the name of a preset")
    parser.add_argument("--vocabulary-of", help="folder with the vocabulary for a preset")
    parser.add_argument("--sequences", type=int, default=1000, help="number of id sequences (default %(default)s)")
    parser.add_argument("--texts", type=int, default=300, help="number of texts (default %(default)s)")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="tasks (default: all)")
    parser.add_argument("--to", nargs="+", choices=FORMATS, default=list(FORMATS), help="formats (default: all)")
    arguments = parser.parse_args()
    probe_inputs.draw_sequences = functools.partial(probe_inputs.draw_sequences, number=arguments.sequences)
    probe_inputs.draw_texts = functools.partial(probe_inputs.draw_texts, number=arguments.texts)
    is_folder = pathlib.Path(arguments.checkpoint).is_dir()
    tokenizer = bk.BertTokenizer.from_checkpoint(arguments.checkpoint if is_folder else arguments.vocabulary_of)
    encoder = load_encoder(arguments.checkpoint, tokenizer)
    for name in arguments.tasks:
        model = TASKS[name](encoder)
        with tempfile.TemporaryDirectory() as folder:
            has_task = find_finetuned_head(type(model).__name__) is not None
            reference = Reference(model, tokenizer, restore_task(folder, model, tokenizer) if has_task else None)
            for format in arguments.to:
                start = time.monotonic()
                print_line(
                    name, format, check_parity(reference, format, pathlib.Path(folder)), time.monotonic() - start
                )


if __name__ == "__main__":
    main()
