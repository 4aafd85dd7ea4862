"""Read Google's BERT checkpoints of 2018-2020: `bert_config.json`, `bert_model.ckpt.*`, `vocab.txt`."""

import functools
import logging
import os
import pathlib
import re
from collections.abc import Callable, Collection

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_num_layers, describe_unused_tensors
from bert_keras.checkpoints.huggingface.config_reader import read_config
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.heads.known_heads import HEADS, get_head

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
    import tensorflow as tf

    folder = pathlib.Path(folder)
    config, read_tokenizer, index = read_without_weights(folder)
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
    unread = sorted(name for name in shapes if name not in read and not _is_optimizer_variable(name, shapes))
    if extra := [name for name in unread if name.startswith(("bert/embeddings/", "bert/encoder/"))]:
        raise InputError(
            f"{source} has variables that BERT's encoder does not have, {format_names(extra)}: the checkpoint is of "
            "another model, which is not supported"
        )
    if unread:
        logger.info("%s: the model does not have %s; skipped", source, format_names(unread))
    return unread


def _is_optimizer_variable(name: str, names: Collection[str]) -> bool:
    """Whether a variable is a step counter or a slot, which optimizers name `VARIABLE/adam_m` for example."""
    variable, _, last = name.rpartition("/")
    return bool(_STATE.fullmatch(last)) or (variable in names and bool(_SLOT.fullmatch(last)))


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
