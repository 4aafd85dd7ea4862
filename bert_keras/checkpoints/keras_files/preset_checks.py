"""Recognize KerasHub preset folders, and check their content before KerasHub builds a model."""

import pathlib

from bert_keras.checkpoints.keras_files.keras_weights import check_fits, check_h5
from bert_keras.checks import quote, read_field, resolve_inside
from bert_keras.errors import InputError
from bert_keras.files import read_json

# KerasHub builds objects from these
_CONFIGS = ("config.json", "task.json", "preprocessor.json", "tokenizer.json")
_INDEX = "model.weights.json"  # lists the files of sharded weights


def is_preset(folder: pathlib.Path) -> bool:
    """Whether a folder is a KerasHub preset, according to its config."""
    if not (folder / "metadata.json").exists() or not (folder / "config.json").exists():
        return False
    registered_name = str(read_json(folder / "config.json").get("registered_name"))
    return registered_name.startswith(("keras_hub>", "keras_nlp>"))


def check_preset(folder: pathlib.Path) -> str | None:
    """Compare the configs of a preset with its weights, and return the class of its task, or None.

    Raises:
        InputError: the preset is of another model, is damaged, or its config is larger than its weights.
    """
    config = read_json(folder / "config.json")
    if (backbone := config.get("class_name")) != "BertBackbone":
        raise InputError(f"{folder} is a preset of {quote(backbone)}; expected BertBackbone: load another preset")
    read_field(config, "config", dict, source=folder / "config.json")
    configs = {name: read_json(folder / name) for name in _CONFIGS if (folder / name).exists()}
    weights = _find_weights(folder)
    num_bytes = sum(path.stat().st_size for path in weights)
    for name, values in configs.items():
        check_fits(values, num_bytes, str(folder / name))
    for path in weights:
        check_h5(path, str(path))
    return read_field(configs.get("task.json", {}), "class_name", str, source=folder / "task.json", default=None)


def _find_weights(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the paths of the files with weights."""
    paths = sorted(folder.glob("*.h5"))
    if (index := folder / _INDEX).exists():
        shards = read_field(read_json(index), "weight_map", dict, source=index)
        names = [name for part in shards.values() for name in (part if isinstance(part, list) else [part])]
        paths += [path for name in names if (path := resolve_inside(folder, name, source=index)) not in paths]
    if not all(path.is_file() for path in paths):
        raise InputError(f"{folder} lacks files that {_INDEX} lists: copy the whole folder again")
    return paths
