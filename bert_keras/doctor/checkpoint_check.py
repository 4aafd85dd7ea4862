"""Check a checkpoint: config, weights, values, checksums, tokenizer and task. Google, KerasHub: by loading it."""

import contextlib
import logging
import math
import pathlib
from collections.abc import Iterator, Mapping

from bert_keras.checkpoints import vocabulary_file
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_finite_weight
from bert_keras.checkpoints.huggingface.huggingface_folder import read_description
from bert_keras.checkpoints.huggingface.weights_file import open_weights
from bert_keras.checkpoints.keras_files.keras_weights import is_preset
from bert_keras.checkpoints.reading import CONFIG as GOOGLE_CONFIG
from bert_keras.checkpoints.reading import read_tokenizer_settings, read_without_tensorflow
from bert_keras.checks import format_count, format_names
from bert_keras.doctor.findings import Section, format_size
from bert_keras.doctor.self_test import add_loading
from bert_keras.embedding_settings import MODULES, transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import CHECKSUMS, check_checksums
from bert_keras.heads.known_heads import find_finetuned_head
from bert_keras.tasks.task_loading import read_checkpoint_task

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def check_checkpoint(path: pathlib.Path) -> Section:
    """Check a folder with a model, or a `.keras` file.

    Weights are read one by one, so that a model larger than the memory can be checked.
    """
    section = Section(f"Checkpoint {path}")
    with _collect_warnings(section):
        if path.suffix == ".keras" or (path / GOOGLE_CONFIG).exists() or is_preset(path):
            _check_by_loading(section, path)
            return section
        home = section.attempt("folder", transformer_folder, path)
        if home is not None:
            _check_folder(section, path, home)
    return section


def _check_folder(section: Section, folder: pathlib.Path, home: pathlib.Path) -> None:
    description = section.attempt("config", read_description, folder)
    if description is not None:
        kind = "sentence-transformers" if (folder / MODULES).exists() else "Hugging Face"
        section.add_ok("config", f"{kind} folder, {_describe_model(description)}")
    weights = section.attempt("weights", open_weights, home)
    if weights is not None:
        section.add_ok("weights", _describe_weights(weights))
        _check_values(section, weights, str(folder))
    _check_sums(section, folder)
    section.attempt("tokenizer", _check_tokenizer, section, home, description)
    if description is not None and weights is not None:
        checkpoint = section.attempt("complete", _read_whole, folder)
        if checkpoint is not None:
            section.add_ok("complete", f"all weights of {checkpoint.model} are there, and have the right shapes")
            for text in checkpoint.not_carried_over:
                section.add_note("not used", text)
            _check_task(section, checkpoint)


def _read_whole(folder: pathlib.Path) -> Checkpoint:
    checkpoint = read_without_tensorflow(folder)
    checkpoint.check_once()
    return checkpoint


def _describe_weights(weights: Mapping[str, StoredWeight]) -> str:
    sizes = [(math.prod(weight.shape), weight.dtype) for weight in weights.values()]
    num_bytes = sum(size * _BYTES.get(dtype, 1) for size, dtype in sizes)
    dtypes = ", ".join(sorted({dtype for _, dtype in sizes}))
    tensors, numbers = format_count(len(sizes), "tensor"), sum(size for size, _ in sizes)
    return f"{tensors}, {numbers:,} numbers in {dtypes}, {format_size(num_bytes)}"


def _check_values(section: Section, weights: Mapping[str, StoredWeight], source: str) -> None:
    """Read every tensor of real numbers and look for NaN and infinity."""
    wrong = []
    for weight in weights.values():
        if weight.dtype in _BYTES:
            try:
                check_finite_weight(weight.name, weight.read(), source)
            except InputError as error:
                wrong.append((weight.name, str(error)))
    if len(wrong) == 1:
        section.add_fault("values", wrong[0][1])
    elif wrong:
        names = format_names([name for name, _ in wrong])
        text = f"{len(wrong)} of {len(weights)} tensors contain NaN or infinity ({names})"
        section.add_fault("values", text, "use a checkpoint from before training diverged")
    else:
        section.add_ok("values", "all finite")


def _check_sums(section: Section, folder: pathlib.Path) -> None:
    if not (folder / CHECKSUMS).exists():
        section.add_note("checksums", f"no {CHECKSUMS}, so changed bytes cannot be noticed")
        return
    num_before = len(section.items)
    section.attempt("checksums", check_checksums, folder)
    if len(section.items) == num_before:
        section.add_ok("checksums", f"all files match {CHECKSUMS}")


def _check_tokenizer(section: Section, home: pathlib.Path, description: Checkpoint | None) -> None:
    table_size = None if description is None else description.config.vocabulary_size
    settings = vocabulary_file.open_tokenizer(home, table_size)()
    if settings is None:
        section.add_note("tokenizer", "none: texts cannot be read without vocab.txt or tokenizer.json")
        return
    size = len(settings["vocabulary"])
    rows = "" if table_size in (None, size) else f", {table_size - size:,} rows of the model without a token"
    section.add_ok("tokenizer", f"{size:,} tokens, {'uncased' if settings.get('lowercase') else 'cased'}{rows}")


def _check_task(section: Section, checkpoint: Checkpoint) -> None:
    if find_finetuned_head(checkpoint.model) is None:
        section.add_ok("task", f"none, a {checkpoint.model} is for pretraining or fine-tuning")
        return
    task = section.attempt("task", read_checkpoint_task, checkpoint)
    if task is None:
        return
    labels = getattr(task, "labels", ())
    shown = f", {format_count(len(labels), 'label')}: {format_names(labels)}" if labels else ""
    section.add_ok("task", f"{task.name}, up to {task.max_sequence_length} tokens{shown}")


def _describe_model(description: Checkpoint) -> str:
    config = description.config
    return (
        f"{description.model}: {config.num_layers} layers of width {config.hidden_dim}, {config.num_heads} heads, "
        f"{config.vocabulary_size:,} tokens, sequences up to {config.max_sequence_length}"
    )


def _check_by_loading(section: Section, path: pathlib.Path) -> None:
    """Check a format that only TensorFlow or Keras can read, by loading it in another process."""
    if path.is_dir() and section.attempt("files", lambda: (read_without_tensorflow(path), True)) is None:
        return
    add_loading(section, path)
    if path.is_dir():
        section.attempt("tokenizer", _check_has_tokenizer, section, path)


def _check_has_tokenizer(section: Section, path: pathlib.Path) -> None:
    if read_tokenizer_settings(path) is None:
        section.add_note("tokenizer", "none that bert-keras can read")


@contextlib.contextmanager
def _collect_warnings(section: Section) -> Iterator[None]:
    """Add the warnings that readers log to a section instead of printing them."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.levelno < logging.WARNING or any(item.text == text for item in section.items):
                return
            if record.name == vocabulary_file.logger.name:  # far fewer tokens than the model
                section.add_fault("tokenizer", text, "restore the vocabulary with which the model was trained")
            else:
                section.add_note("warning", text)

    log, handler = logging.getLogger("bert_keras"), Handler()
    propagates = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
