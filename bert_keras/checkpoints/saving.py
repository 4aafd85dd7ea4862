"""`save`: write a model and its tokenizer as a Hugging Face model folder; `convert`: do it for a folder of any format.

`huggingface/huggingface_folder.py` reads such a folder.
"""

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.base import BertModel
from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.architectures.layers import compute_sinusoidal_positions
from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter
from bert_keras.checkpoints.building import get_encoder, get_model_name, get_stored_config, get_variables
from bert_keras.checkpoints.checkpoint import Checkpoint, describe_unused_tensors
from bert_keras.checkpoints.huggingface.huggingface_folder import (
    ACTS_OUT,
    FORMAT,
    GENERATOR,
    OUR_SETTINGS,
    PROBLEMS,
    find_position_table,
    get_class_name,
    get_name_prefix,
)
from bert_keras.checkpoints.huggingface.model_card import build_model_card
from bert_keras.checkpoints.huggingface.sentence_transformers import write_modules
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.checkpoints.huggingface.weights_file import WEIGHTS, write_arrays
from bert_keras.checkpoints.keras_files.keras_hub_preset import write_preset
from bert_keras.checkpoints.loading import check_takes_adapter, is_keras_file, load, load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.vocabulary_file import check_tokenizer_size
from bert_keras.errors import InputError, UnsupportedTokenizerError
from bert_keras.files import write_checksums, write_json
from bert_keras.heads.known_heads import get_head
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.publishing import check_writable_folder, publish_folder

_HASHED_FILES = (WEIGHTS, f"{GENERATOR}/{WEIGHTS}", "vocab.txt", "tokenizer.json")  # those that loading reads
_COMMANDS = ("pretrain", "finetune", "distill", "convert")
FORMATS = ("huggingface", "keras_hub")


class Conversion(NamedTuple):
    """The result of `convert`.

    Attributes:
        model: the model that was converted.
        not_carried_over: the content of the source that the new folder lacks, one phrase each.
    """

    model: BertModel
    not_carried_over: list[str]


def convert(
    source: str | os.PathLike | Checkpoint,
    out: str | os.PathLike,
    to: str = "huggingface",
    *,
    adapter: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> Conversion:
    """Convert a model folder of any format, with its tokenizer and head.

    Args:
        source: any folder that `load` accepts, a `.keras` file, or the result of `read_checkpoint`.
        out: the folder to write.
        to: "huggingface", which is also the format of our own checkpoint folders, or "keras_hub".
        adapter: folder of a LoRA adapter in PEFT's format to merge into the weights, see `load`.
        overwrite: replace a folder that `convert` wrote.

    Returns:
        A `Conversion`: the model, and the list of everything that could not be carried over.

    Raises:
        InputError: the source cannot be read, the new format has no such model, or `out` cannot be written.

    Example:
        >>> conversion = bk.convert("demo/pretrained", "my/converted")
        >>> conversion.not_carried_over
        []
    """
    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}; expected one of {', '.join(FORMATS)}")
    inputs = [str(source), *([] if adapter is None else [adapter])]
    check_writable_folder(out, "convert", overwrite=overwrite, inputs=inputs)
    if is_keras_file(source):
        check_takes_adapter(source, adapter)
    else:
        source = read_checkpoint(source)
        source = source if adapter is None else merge_adapter(source, adapter)
    model, lost, task, length = load(source), [], None, None
    if isinstance(source, Checkpoint):
        variables, task = get_variables(model), source.task
        unused = [weight.name for name, weight in source.weights.items() if name not in variables]
        lost += [*source.not_carried_over, *describe_unused_tensors(unused, type(model).__name__)]
        lost += [] if source.generator is None else source.generator.not_carried_over
    try:
        tokenizer = load_tokenizer(source)
    except UnsupportedTokenizerError as error:
        tokenizer = None
        lost.append(f"the tokenizer: {error}")
    if to == "huggingface":
        if tokenizer is None and isinstance(source, Checkpoint) and get_head(source.model).has_modules:
            length = TokenizerFolder(source.source).max_sequence_length()
        save(model, tokenizer, out, overwrite=overwrite, task=task, max_sequence_length=length, written_by="convert")
    else:
        lost += write_preset(model, tokenizer, out, overwrite=overwrite, task=task)
    return Conversion(model, lost)


def build_config(model: BertModel, task: Mapping[str, object] | None = None) -> dict:
    """Return the `config.json` of a model: Hugging Face's schema, with our own keys under `bert_keras`."""
    config, name = get_stored_config(model), get_model_name(model)
    record = get_architecture(config.model_type)
    values = {"architectures": [get_class_name(name, record)], "model_type": record.model_type}
    values |= {theirs: getattr(config, ours) for ours, theirs in record.config_keys.items()}
    values[record.act_key] = ACTS_OUT[config.hidden_act]
    values |= {"pad_token_id": 0, "tie_word_embeddings": True, "dtype": "float32"}
    values |= _build_head_config(model, record)
    settings = {key: value for key in OUR_SETTINGS if (value := getattr(model, key, None)) is not None}
    values["bert_keras"] = {
        "format": FORMAT,
        "model": name,
        "position_type": config.position_type,
        "settings": settings,
        **({} if task is None else {"task": dict(task)}),
    }
    return values


def _build_head_config(model: BertModel, record: Architecture) -> dict:
    """Return the keys of a classification head."""
    head = get_head(get_model_name(model))
    if not head.has_num_classes:
        return {}
    labels = model.labels or [f"LABEL_{i}" for i in range(model.num_classes)]
    values = {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    if (key := record.dropout_keys.get(head.model_name)) is not None:
        has_own_default = model.dropout_rate is None and key in record.config_defaults
        values[key] = model.encoder.config.hidden_dropout_rate if has_own_default else model.dropout_rate
    if head.has_problem:
        values["problem_type"] = PROBLEMS[model.problem]
    return values


def save(
    model: BertModel,
    tokenizer: BertTokenizer | None,
    out: str | os.PathLike,
    *,
    overwrite: bool = False,
    card: str | None = None,
    notes: Mapping[str, str | bytes] | None = None,
    task: Mapping[str, object] | None = None,
    max_sequence_length: int | None = None,
    written_by: str = "save",
) -> None:
    """Save a model and its tokenizer as a checkpoint folder, which transformers can load.

    The folder contains `config.json`, `model.safetensors`, `README.md` and `SHA256SUMS`; with a tokenizer also
    `vocab.txt`, `tokenizer_config.json` and `tokenizer.json`; for an embedder the files of sentence-transformers; for
    ELECTRA the generator in `generator/`. It is written completely or not at all.

    Args:
        model: a `BertEncoder` or any model with a head.
        tokenizer: the tokenizer of the model, or None to save the weights only.
        out: the folder.
        overwrite: replace a folder that `written_by` wrote. `save` also replaces folders of the commands.
        card: text of the model card `README.md`. Default: a short description of the model.
        notes: other files to write to the folder, contents keyed by file name, for example how the model was trained.
            A name such as "adapter/adapter_config.json" is in a subfolder.
        task: settings of the task that the model was fine-tuned for, see `bert_keras.heads`; stored in `config.json`.
        max_sequence_length: maximum length in tokens of an embedder without a tokenizer. Default: the number of
            positions of the model.
        written_by: the command that writes the folder, recorded in `.bert_keras.json`.

    Raises:
        InputError: the tokenizer has more tokens than the model, the model is quantized, or `out` cannot be written.

    Example:
        >>> model, tokenizer = bk.load("demo/classifier"), bk.load_tokenizer("demo/classifier")
        >>> bk.save(model, tokenizer, "my/copy")
        >>> type(bk.load("my/copy")).__name__
        'BertClassifier'
    """
    replaces = _COMMANDS if written_by == "save" else ()
    if tokenizer is not None:
        check_tokenizer_size(tokenizer, get_encoder(model).config)
    with publish_folder(out, written_by, overwrite=overwrite, replaces=replaces) as staging:
        _write_model(model, staging, task)
        if tokenizer is not None:
            tokenizer.save(staging)
        length = (task or {}).get("max_sequence_length", getattr(tokenizer, "max_sequence_length", max_sequence_length))
        write_modules(model, staging, max_sequence_length=length)
        if getattr(model, "generator", None) is not None:
            (staging / GENERATOR).mkdir()
            _write_model(model.generator, staging / GENERATOR)
        for name, text in {"README.md": card or build_model_card(model, tokenizer), **(notes or {})}.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        write_checksums(staging, [name for name in _HASHED_FILES if (staging / name).exists()])


def _write_model(model: BertModel, folder: pathlib.Path, task: Mapping[str, object] | None = None) -> None:
    write_json(folder / "config.json", build_config(model, task))
    write_arrays(folder / WEIGHTS, dict(_convert_weights(model)), metadata={"format": "pt"})


def _convert_weights(model: BertModel) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights of a model with the tensor names and layouts of transformers."""
    config, name = get_stored_config(model), get_model_name(model)
    pooler = get_encoder(model).pooler is not None and not get_head(name).ignores_pooler
    variables = get_variables(model)
    for weight in list_weights(name, config, pooler=pooler):
        value = np.asarray(variables[weight.ours], "float32")
        value = np.ascontiguousarray(value.T) if weight.is_kernel else value
        yield get_name_prefix(weight, name, config) + weight.huggingface, value
    if config.position_type == "sinusoidal":  # stored for transformers, which does not compute them
        table = compute_sinusoidal_positions(config.max_sequence_length, config.embedding_dim)
        weight = find_position_table(config)
        yield get_name_prefix(weight, name, config) + weight.huggingface, table
