"""The checkpoint folder: read and written as a Hugging Face (and sentence-transformers) model folder."""

import logging
import os
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from bert_keras.array_files import write_arrays
from bert_keras.checkpoints.checkpoint import POOLERLESS, Checkpoint, StoredWeight, encoder_of, family_of, variables_of
from bert_keras.checkpoints.embedder_modules import read_modules, write_modules
from bert_keras.checkpoints.huggingface_config import read_config, read_model, read_task, write_config
from bert_keras.checkpoints.model_card import model_card
from bert_keras.checkpoints.names import WeightName, weight_names
from bert_keras.checkpoints.weights_file import WEIGHTS, open_weights
from bert_keras.errors import InputError
from bert_keras.files import publish_folder, read_json, write_checksums, write_json
from bert_keras.modeling.layers import sinusoidal_positions
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.pipelines.vocabulary import read_vocabulary

logger = logging.getLogger(__name__)

GENERATOR = "generator"
_POSITIONS = "embeddings.position_embeddings.weight"
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # old versions of transformers wrote them
_CHECKED_FILES = (WEIGHTS, f"{GENERATOR}/{WEIGHTS}", "vocab.txt", "tokenizer.json")
_TIED = ("cls.predictions.decoder.weight", "generator_lm_head.weight")
_TIED_BIAS = {"cls.predictions.bias": "cls.predictions.decoder.bias"}


def read_folder(folder: str | os.PathLike) -> Checkpoint:
    """Reads a Hugging Face, sentence-transformers or own model folder. Weights are read when they are asked for.

    Raises:
        InputError: a file is missing, damaged, or of another model; the message names it.
    """
    folder = pathlib.Path(folder)
    values = read_json(folder / "config.json")
    source = str(folder / "config.json")
    config = read_config(values, source)
    model, family, settings = read_model(values, source)
    if model == "BertEncoder" and (folder / "modules.json").exists():
        model, settings = "BertEmbedder", read_modules(folder)
    tensors = open_weights(folder)
    check_vocabulary(folder / "vocab.txt", config.vocabulary_size)
    names = weight_names(model, config, pooler="pooler.dense.weight" in tensors, family=family)
    _check_tied(tensors, str(folder))
    _check_all_read(tensors, names, config, str(folder))
    weights = {name.ours: stored for name in names if (stored := _weight(name, tensors)) is not None}
    expected_names = {name.ours: _prefix(name, model, family) + name.huggingface for name in names}
    checkpoint = Checkpoint(str(folder), model, config, settings, weights, expected_names, family)
    if model == "ElectraPretrainer" and (folder / GENERATOR).is_dir():
        checkpoint.generator = read_folder(folder / GENERATOR)
        checkpoint.settings["generator_config"] = checkpoint.generator.config
    return checkpoint


def stored_task(folder: str | os.PathLike) -> dict | None:
    """Returns what a checkpoint folder says of the task that its model was fine-tuned for; None: nothing."""
    path = pathlib.Path(folder) / "config.json"
    return read_task(read_json(path), str(path)) if path.exists() else None


def save(
    model,
    tokenizer: BertTokenizer | None,
    out: str | os.PathLike,
    *,
    overwrite: bool = False,
    card: str | None = None,
    notes: Mapping[str, str | bytes] | None = None,
    task: Mapping[str, object] | None = None,
) -> None:
    """Writes a model, and its tokenizer, as a checkpoint folder that transformers opens as it is.

    `config.json`, `model.safetensors`, `README.md`, `SHA256SUMS`; with a tokenizer also `vocab.txt`,
    `tokenizer_config.json` and `tokenizer.json`; for an embedder the files of sentence-transformers;
    for ELECTRA the generator in `generator/`. The folder appears whole or not at all.

    Args:
        model: a `BertEncoder` or any model with a head.
        tokenizer: the tokenizer that made its ids, or None to save the weights alone.
        out: the folder.
        overwrite: replace a folder that is not empty.
        card: text of the model card `README.md`; default: a short one from the model.
        notes: texts or pictures to lay beside, by file name: how the model was trained, for example.
        task: what the model was fine-tuned for, see `bert_keras.tasks`; it stands in `config.json`.

    Raises:
        InputError: the tokenizer's vocabulary is not of the model's size, or `out` may not be written.
    """
    config = encoder_of(model).config
    if tokenizer is not None and tokenizer.vocabulary_size != config.vocabulary_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocabulary_size:,} pieces and the model {config.vocabulary_size:,}: "
            "save the model with the tokenizer that it was trained with"
        )
    with publish_folder(out, overwrite=overwrite) as staging:
        _write_model(model, staging, task)
        if tokenizer is not None:
            tokenizer.save(staging)
        length = (task or {}).get("max_sequence_length", getattr(tokenizer, "max_sequence_length", None))
        write_modules(model, staging, max_sequence_length=length)
        if getattr(model, "generator", None) is not None:
            (staging / GENERATOR).mkdir()
            _write_model(model.generator, staging / GENERATOR)
        for name, text in {"README.md": card or model_card(model, tokenizer), **(notes or {})}.items():
            (staging / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        write_checksums(staging, [name for name in _CHECKED_FILES if (staging / name).exists()])


def check_vocabulary(path: pathlib.Path, expected: int) -> None:
    """Raises `InputError` if the vocabulary file, where there is one, has not as many pieces as the model."""
    if path.exists() and (size := len(read_vocabulary(path))) != expected:
        raise InputError(
            f"{path} has {size:,} pieces, the model's token table {expected:,}: "
            "the vocabulary is of another model, so put the right one there"
        )


def _write_model(model, folder: pathlib.Path, task: Mapping[str, object] | None = None) -> None:
    write_json(folder / "config.json", write_config(model, task))
    write_arrays(folder / WEIGHTS, dict(_arrays(model)), metadata={"format": "pt"})


def _arrays(model) -> Iterator[tuple[str, np.ndarray]]:
    """Yields Hugging Face's tensor names and layouts."""
    encoder, family, name = encoder_of(model), family_of(model), type(model).__name__
    pooler = encoder.pooler is not None and name not in POOLERLESS
    variables = variables_of(model)
    names = weight_names(name, encoder.config, pooler=pooler, family=family)
    for weight in names:
        value = np.asarray(variables[weight.ours], "float32")
        value = np.ascontiguousarray(value.T) if weight.is_kernel else value
        yield _prefix(weight, name, family) + weight.huggingface, value
    if encoder.config.position_type == "sinusoidal":  # written out, so that transformers computes the same
        table = sinusoidal_positions(encoder.config.max_sequence_length, encoder.config.embedding_dim)
        yield _prefix(names[0], name, family) + _POSITIONS, table


def _prefix(weight: WeightName, model: str, family: str) -> str:
    """Returns what transformers puts before an encoder's tensors in a model with a head."""
    bare = model in ("BertEncoder", "BertEmbedder")
    return f"{family}." if weight.ours.startswith("encoder.") and not bare else ""


def _weight(name: WeightName, tensors: dict[str, StoredWeight]) -> StoredWeight | None:
    stored = tensors.get(name.huggingface) or tensors.get(_TIED_BIAS.get(name.huggingface))
    if stored is None or not name.is_kernel:
        return stored
    return StoredWeight(stored.name, lambda: stored.read().T)


def _check_tied(tensors: dict[str, StoredWeight], source: str) -> None:
    """A masked-LM head with an output matrix of its own would be another function."""
    table = tensors.get("embeddings.word_embeddings.weight")
    for name in _TIED:
        if name in tensors and table is not None and not np.array_equal(tensors[name].read(), table.read()):
            raise InputError(
                f"{source}: {tensors[name].name} is not the token embedding, but the head of BERT is tied to it: "
                "this toolkit has no untied head"
            )


def _check_all_read(tensors: dict[str, StoredWeight], names: list[WeightName], config, source: str) -> None:
    """A tensor of the encoder that nobody reads means that the file holds another function; an unread head is news."""
    read = {name.huggingface for name in names} | set(_BUFFERS)
    if config.position_type == "sinusoidal":
        read.add(_POSITIONS)  # written for transformers, computed here
    unread = [name for name in tensors if name not in read]
    if alien := [tensors[name].name for name in unread if name.startswith(("embeddings", "encoder."))]:
        raise InputError(
            f"{source} has tensors that its config has no place for, {', '.join(alien[:3])} first: "
            "config and weights are not of one model"
        )
    if unread:
        logger.info("%s: %s are not read by this model", source, ", ".join(unread))
