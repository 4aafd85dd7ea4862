"""Google's own BERT checkpoints of 2018-2020: `bert_config.json`, `bert_model.ckpt.*`, `vocab.txt`."""

import functools
import os
import pathlib
from collections.abc import Callable

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_num_layers
from bert_keras.checkpoints.huggingface_config import read_config
from bert_keras.checkpoints.names import weight_names
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.files import read_json

CONFIG = "bert_config.json"
_HEADS = {  # the first of these variables that is there names the model
    "cls/seq_relationship/output_weights": "BertPretrainer",
    "cls/predictions/output_bias": "BertMaskedLM",
    "cls/squad/output_weights": "BertQuestionAnswerer",
    "output_weights": "BertClassifier",
}


def read_google(folder: str | os.PathLike) -> Checkpoint:
    """Reads a TF1 checkpoint under Google's variable names; the optimizer's slots are left unread.

    Raises:
        InputError: there is not exactly one checkpoint, it is damaged, or the config does not fit.
    """
    folder = pathlib.Path(folder)
    config, read_tokenizer, index = read_beside_weights(folder)
    reader = _open(index)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    check_num_layers(config.num_layers, shapes, str(folder / CONFIG))
    model = next((name for variable, name in _HEADS.items() if variable in shapes), "BertEncoder")
    settings = {"num_classes": (*shapes["output_weights"], 1)[0]} if model == "BertClassifier" else {}
    names = weight_names(model, config, pooler="bert/pooler/dense/kernel" in shapes)
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
    return Checkpoint(
        str(folder),
        model,
        config,
        settings,
        weights,
        {name.ours: name.google for name in names},
        read_tokenizer=read_tokenizer,
    )


def read_beside_weights(folder: pathlib.Path) -> tuple[BertConfig, Callable[[], dict | None], pathlib.Path]:
    """Reads what takes no TensorFlow: the config, how to read the tokenizer, and where the checkpoint's index is.

    Raises:
        InputError: the config or the vocabulary cannot be used, or there is not exactly one checkpoint.
    """
    config = read_config(_with_googles_gelu(read_json(folder / CONFIG)), str(folder / CONFIG))
    read_tokenizer = open_tokenizer(folder, config.vocabulary_size)
    indexes = sorted(folder.glob("*.ckpt*.index"))
    if len(indexes) != 1:
        found = ", ".join(path.name for path in indexes) or "none"
        raise InputError(f"{folder} has {CONFIG}, but of *.ckpt.index files {found}; expected one checkpoint")
    return config, read_tokenizer, indexes[0]


def _with_googles_gelu(values: dict) -> dict:
    """Google's code computes by tanh what its configs call "gelu"."""
    return {**values, "hidden_act": "gelu_tanh"} if values.get("hidden_act") == "gelu" else values


def _open(index: pathlib.Path):
    import tensorflow as tf

    try:
        return tf.train.load_checkpoint(str(index.with_suffix("")))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"{index} cannot be read ({_first_line(error)}): copy the checkpoint again") from None


def _read(reader, name: str, source: str) -> np.ndarray:
    import tensorflow as tf

    try:
        value = reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"{source}: {name} cannot be read ({_first_line(error)}): copy the checkpoint again") from None
    return value.T if _is_transposed(name) else value


def _is_transposed(name: str) -> bool:
    return name.endswith("output_weights")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
