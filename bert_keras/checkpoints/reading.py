"""Detect the format of a model folder and read it as a `Checkpoint`.

Our own and Hugging Face's folders are read without TensorFlow. `loading.py` builds models from the result.
"""

import functools
import logging
import os
import pathlib
import re
from collections.abc import Callable, Collection

import numpy as np

from bert_keras.checkpoints.checkpoint import (
    Checkpoint,
    StoredWeight,
    check_complete,
    check_num_layers,
    describe_unused_tensors,
)
from bert_keras.checkpoints.huggingface.huggingface_folder import read_config, read_folder
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.keras_files.keras_weights import check_preset, is_preset
from bert_keras.checkpoints.vocabulary_file import open_tokenizer, read_preset_settings
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.embedding_settings import transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.heads.known_heads import HEADS, get_head
from bert_keras.hub.names import is_hub_name

logger = logging.getLogger(__name__)

CONFIG = "bert_config.json"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # a variable of object-based TensorFlow 2 checkpoints
_STATE = re.compile(r"global_step|beta\d_power(_\d+)?")
_SLOT = re.compile(r"(adam|lamb|lars|momentum|adagrad|adadelta|adafactor|rmsprop|ftrl).*|[mv](_\d+)?", re.IGNORECASE)


def read_google(folder: str | os.PathLike) -> Checkpoint:
    """Read a TF1 checkpoint with Google's variable names. The optimizer's variables are skipped.

    Raises:
        InputError: there is not exactly one checkpoint, it is damaged, the config does not fit, or the encoder has
            variables that ours does not have.
    """
    folder = pathlib.Path(folder)
    config, read_tokenizer, index = read_without_weights(folder)
    import tensorflow as tf  # after the checks that do not need it

    try:
        reader = tf.train.load_checkpoint(str(index.with_suffix("")))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"{index} cannot be read ({_get_first_line(error)}): copy the checkpoint again") from None
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if _OBJECT_GRAPH in shapes:
        raise InputError(
            f"{index} is an object-based TensorFlow 2 checkpoint; expected a name-based one, as of Google's TF1 "
            "code: use the model's TF1 checkpoint, or its Hugging Face folder"
        )
    check_num_layers(config.num_layers, shapes, "bert/encoder/layer_{i}/", str(folder / CONFIG))
    # the pretraining head, which contains the masked LM, comes after it in the list
    head = next((head for head in reversed(HEADS) if head.google in shapes), get_head("BertEncoder"))
    model, settings = head.model_name, {"num_classes": (*shapes[head.google], 1)[0]} if head.has_num_classes else {}
    names = list_weights(model, config, pooler="bert/pooler/dense/kernel" in shapes)
    weights = {
        name.ours: StoredWeight(
            name.google,
            tuple(shapes[name.google])[:: -1 if _is_transposed(name.google) else 1],
            functools.partial(_read, reader, name.google, str(folder)),
            dtypes[name.google].name,
        )
        for name in names
        if name.google in shapes
    }
    unread = _check_all_read(shapes, names, str(folder))
    return Checkpoint(
        str(folder),
        model,
        config,
        settings,
        weights,
        {name.ours: name.google for name in names},
        read_tokenizer=read_tokenizer,
        not_carried_over=describe_unused_tensors(unread, model),
    )


def _check_all_read(shapes: Collection[str], names: list[WeightName], source: str) -> list[str]:
    """Return the variables that the model does not have, such as another head, except the optimizer's.

    Raises:
        InputError: one of them belongs to the encoder, so it computes something else than ours.
    """
    read = {name.google for name in names}
    unread = []
    for name in sorted(name for name in shapes if name not in read):
        variable, _, last = name.rpartition("/")
        # step counters, and slots, which optimizers name `VARIABLE/adam_m` for example
        if not _STATE.fullmatch(last) and not (variable in shapes and _SLOT.fullmatch(last)):
            unread.append(name)
    if extra := [name for name in unread if name.startswith(("bert/embeddings/", "bert/encoder/"))]:
        raise InputError(
            f"{source} has variables that BERT's encoder does not have, {format_names(extra)}: the checkpoint is of "
            "another model, which is not supported"
        )
    if unread:
        logger.info("%s: the model does not have %s; skipped", source, format_names(unread))
    return unread


def read_without_weights(folder: pathlib.Path) -> tuple[BertConfig, Callable[[], dict | None], pathlib.Path]:
    """Read the parts that do not need TensorFlow.

    Returns:
        The config, a function that reads the tokenizer settings, and the path of the checkpoint's index file.

    Raises:
        InputError: the config or the vocabulary is invalid, or there is not exactly one checkpoint.
    """
    values = read_json(folder / CONFIG)
    if values.get("hidden_act") == "gelu":  # for which Google's code uses the tanh approximation
        values["hidden_act"] = "gelu_tanh"
    config = read_config(values, str(folder / CONFIG))
    read_tokenizer = open_tokenizer(folder, config.vocabulary_size)
    indexes = sorted(folder.glob("*.ckpt*.index"))
    if len(indexes) != 1:
        found = ", ".join(path.name for path in indexes) or "none"
        raise InputError(
            f"{folder} has {CONFIG} and these *.ckpt.index files: {found}; expected exactly one: keep the files of one "
            "checkpoint in the folder"
        )
    return config, read_tokenizer, indexes[0]


def _read(reader, name: str, source: str) -> np.ndarray:
    import tensorflow as tf

    try:
        value = reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        raise InputError(
            f"{source}: {name} cannot be read ({_get_first_line(error)}): copy the checkpoint again"
        ) from None
    return value.T if _is_transposed(name) else value


def _is_transposed(name: str) -> bool:
    return name.endswith("output_weights")


def _get_first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def read_checkpoint(folder: str | os.PathLike | Checkpoint, *, any_head: bool = False) -> Checkpoint:
    """Read a model folder of any format. Its weights are read later, on demand.

    Args:
        folder: the folder, or the name of a model on the Hub. A `Checkpoint` is returned as it is, so that a command
            reads a folder only once.
        any_head: if a Hugging Face folder has a head that we do not support, read the encoder instead of raising.

    Raises:
        InputError: the folder has no supported format, or a file in it is missing, damaged or of another model.
    """
    if isinstance(folder, Checkpoint):
        return folder
    path = _check_folder(find_folder(folder))
    if (path / CONFIG).exists():
        checkpoint = read_google(path)
    elif is_preset(path):
        from bert_keras.checkpoints.keras_files.keras_hub_preset import read_preset  # imports TensorFlow

        checkpoint = read_preset(path)
    else:
        checkpoint = read_folder(path, any_head=any_head)
    checkpoint.hub_name = os.fspath(folder) if is_hub_name(folder) else None
    return checkpoint


def read_without_tensorflow(folder: str | os.PathLike) -> Checkpoint | None:
    """Read and check as much of a model folder as possible without TensorFlow.

    Returns:
        The checkpoint, of which every weight exists; None for the formats of Google and KerasHub, whose weights only
        TensorFlow can read.

    Raises:
        InputError: the folder has no supported format, or a file in it is missing, damaged or of another model.
    """
    folder = _check_folder(find_folder(folder))
    if (folder / CONFIG).exists():
        read_without_weights(folder)
        return None
    if is_preset(folder):
        check_preset(folder)
        return None
    checkpoint = read_folder(folder)
    check_complete(checkpoint)
    return checkpoint


def read_tokenizer_settings(folder: str | os.PathLike | Checkpoint) -> dict | None:
    """Return the arguments of `BertTokenizer` for a folder of any format, or None if it has no vocabulary.

    The folder need not contain a model.

    Raises:
        InputError: a file cannot be read, or the tokenizer follows rules that `BertTokenizer` does not support.
    """
    if isinstance(folder, Checkpoint):
        return folder.tokenizer_settings
    folder = find_folder(folder, with_weights=False)
    if is_preset(folder):
        return read_preset_settings(folder)
    return open_tokenizer(transformer_folder(folder))()


def find_folder(
    folder: str | os.PathLike, *, with_weights: bool = True, report: Callable[[str], None] | None = None
) -> pathlib.Path:
    """Return the path of a folder; a model of the Hub is downloaded to the cache, see `bert_keras.hub`.

    Args:
        folder: a path, or a name that starts with `hf://`.
        with_weights: whether to download the weights of a model of the Hub.
        report: called with a line of text before a download.

    Raises:
        InputError: the model cannot be downloaded.
    """
    if not is_hub_name(folder):
        return pathlib.Path(folder)
    from bert_keras.hub.downloading import download_folder

    return download_folder(os.fspath(folder), with_weights=with_weights, report=report)


def exists(folder: str | os.PathLike) -> bool:
    """Whether a path exists; the name of a model on the Hub is assumed to, until it is read."""
    return is_hub_name(folder) or pathlib.Path(folder).exists()


def _check_folder(folder: pathlib.Path) -> pathlib.Path:
    """Return the folder after checking that it has the config of a supported format."""
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {kind}; expected a checkpoint folder or a .keras file: check the path")
    if not any((transformer_folder(folder) / name).exists() for name in (CONFIG, "config.json")):
        raise InputError(
            f"{folder} is not a checkpoint of a supported format; expected config.json (Hugging Face, KerasHub) or "
            f"{CONFIG} (Google) in it: check the path"
        )
    return folder
