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
from bert_keras.checkpoints.task_loading import read_checkpoint_task
from bert_keras.checks import format_count, format_names
from bert_keras.doctor.findings import Section, format_size
from bert_keras.doctor.self_test import add_loading
from bert_keras.embedding_settings import MODULES, transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import CHECKSUMS, check_checksums
from bert_keras.heads.known_heads import find_finetuned_head

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def check_checkpoint(path: pathlib.Path) -> Section:
    """Check a folder with a model, or a `.keras` file.

    Weights are read one by one, so that a model larger than the memory can be checked.
    """
    section = Section(f"Checkpoint {path}")
    with _collect_warnings(section):
        if path.suffix == ".keras" or (path / GOOGLE_CONFIG).exists() or is_preset(path):
            _check_by_loading(section, path)
        else:
            with section.attempt("folder"):
                _check_folder(section, path, transformer_folder(path))
    return section


def _check_folder(section: Section, folder: pathlib.Path, home: pathlib.Path) -> None:
    description = weights = None
    with section.attempt("config"):
        description = read_description(folder)
        kind = "sentence-transformers" if (folder / MODULES).exists() else "Hugging Face"
        config = description.config
        sizes = f"{config.num_layers} layers of width {config.hidden_dim}, {config.num_heads} heads"
        tokens = f"{config.vocabulary_size:,} tokens, sequences up to {config.max_sequence_length}"
        section.add_ok("config", f"{kind} folder, {description.model}: {sizes}, {tokens}")
    with section.attempt("weights"):
        weights = open_weights(home)
        section.add_ok("weights", _describe_weights(weights))
    if weights is not None:
        _check_values(section, weights, str(folder))
    if not (folder / CHECKSUMS).exists():
        section.add_note("checksums", f"no {CHECKSUMS}, so changed bytes cannot be noticed")
    with section.attempt("checksums"):
        if (folder / CHECKSUMS).exists():
            check_checksums(folder)
            section.add_ok("checksums", f"all files match {CHECKSUMS}")
    with section.attempt("tokenizer"):
        _check_tokenizer(section, home, description)
    if description is None or weights is None:
        return
    with section.attempt("complete"):
        checkpoint = read_without_tensorflow(folder)
        checkpoint.check_once()
        section.add_ok("complete", f"all weights of {checkpoint.model} are there, and have the right shapes")
        for text in checkpoint.not_carried_over:
            section.add_note("not used", text)
        with section.attempt("task"):
            section.add_ok("task", _describe_task(checkpoint))


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


def _check_tokenizer(section: Section, home: pathlib.Path, description: Checkpoint | None) -> None:
    table_size = None if description is None else description.config.vocabulary_size
    settings = vocabulary_file.open_tokenizer(home, table_size)()
    if settings is None:
        section.add_note("tokenizer", "none: texts cannot be read without vocab.txt or tokenizer.json")
        return
    size = len(settings["vocabulary"])
    rows = "" if table_size in (None, size) else f", {table_size - size:,} rows of the model without a token"
    section.add_ok("tokenizer", f"{size:,} tokens, {'uncased' if settings.get('lowercase') else 'cased'}{rows}")


def _describe_task(checkpoint: Checkpoint) -> str:
    """Read and describe the task of a checkpoint."""
    if find_finetuned_head(checkpoint.model) is None:
        return f"none, a {checkpoint.model} is for pretraining or fine-tuning"
    task = read_checkpoint_task(checkpoint)
    labels = getattr(task, "labels", ())
    shown = f", {format_count(len(labels), 'label')}: {format_names(labels)}" if labels else ""
    return f"{task.name}, up to {task.max_sequence_length} tokens{shown}"


def _check_by_loading(section: Section, path: pathlib.Path) -> None:
    """Check a format that only TensorFlow or Keras can read, by loading it in another process."""
    with section.attempt("files"):
        if path.is_dir():
            read_without_tensorflow(path)
        add_loading(section, path)
        with section.attempt("tokenizer"):
            if path.is_dir() and read_tokenizer_settings(path) is None:
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
