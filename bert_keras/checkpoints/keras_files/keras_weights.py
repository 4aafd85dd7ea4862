"""Check `.keras` files and KerasHub presets before Keras builds models: is the config as large as the weights?"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checks import quote, read_field, resolve_inside
from bert_keras.config import PROBLEMS, BertConfig
from bert_keras.embedding_settings import SIMILARITIES
from bert_keras.errors import InputError
from bert_keras.files import read_json, to_plain, write_json
from bert_keras.heads.known_heads import HEADS, get_head

_MAX_PARAMETERS_PER_BYTE = 2  # of int4, Keras's narrowest dtype
_SEGMENTS = ("type_vocabulary_size", "num_segments")  # ours, KerasHub's
_SIZES = ("vocabulary_size", "num_layers", "hidden_dim", "intermediate_dim", "max_sequence_length")
_WIDTHS = ("embedding_dim", *_SEGMENTS)
_FREE_POSITIONS = 2**24  # numbers of a sinusoidal table, which is computed, not stored: 64 MiB
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(BertConfig)}
_KERAS_HUB = ("keras_hub", "keras_nlp")
_KINDS = "activations|constraints|dtype_policies|initializers|losses|metrics|optimizers|random|regularizers"
_WITHOUT_WEIGHTS = re.compile(rf"keras(\.src)?\.({_KINDS})(\..*)?")  # modules of Keras
_METRICS = re.compile(r"keras(\.src)?\.metrics(\..*)?")
# pairs of arguments whose product is the size of a metric's variables
_METRIC_SIZES = (("num_thresholds", "num_labels"), ("num_classes", "num_classes"))
_MAX_METRIC_SIZE = 10**7  # 40 MB per variable; AUC with Keras's 200 thresholds has 200 numbers per label
# KerasHub builds objects from these
_CONFIGS = ("config.json", "task.json", "preprocessor.json", "tokenizer.json")
_INDEX = "model.weights.json"  # lists the files of sharded weights


FILE = "bert_keras_settings.json"
_FORMAT = 1
_CHOICES = {"problem": PROBLEMS, "similarity": SIMILARITIES}
_CONFIG = {"attention_dropout_rate": float, "initializer_range": float}
_TOKENIZER = {
    "max_sequence_length": int,
    "tokenize_chinese_chars": bool,
    "max_input_chars_per_word": int,
    "text_rules": str,
    "unicode_version": str,
    "additional_special_tokens": list[str],
    "added_tokens": list[str],
}


@dataclasses.dataclass(frozen=True)
class PresetSettings:
    """The content of our file in a preset.

    Attributes:
        model: our class of the stored model; "BertEncoder" if its head was not converted.
        head: arguments of that class that KerasHub's class lacks.
        config: fields of `BertConfig` that KerasHub's backbone lacks.
        has_pooler: whether the encoder has a pooler; KerasHub's always has one.
        tokenizer: arguments of `BertTokenizer` that KerasHub's tokenizer lacks.
        task: the settings of the task.
    """

    model: str
    head: dict = dataclasses.field(default_factory=dict)
    config: dict = dataclasses.field(default_factory=dict)
    has_pooler: bool = True
    tokenizer: dict = dataclasses.field(default_factory=dict)
    task: dict | None = None


def write_settings(
    folder: pathlib.Path, model: Any, written: str, tokenizer: Any, task: Mapping[str, object] | None
) -> None:
    """Write our file.

    Args:
        folder: the preset.
        model: the model.
        written: the class that the preset stores: that of the model, or "BertEncoder" without its head.
        tokenizer: its `BertTokenizer`, or None.
        task: the settings of its task.
    """
    encoder = getattr(model, "encoder", model)
    rules = {} if tokenizer is None else dataclasses.asdict(tokenizer.rules)
    if tokenizer is not None:
        more = tokenizer.special_tokens[len(tokenizer.special_ids) :]
        rules |= {"max_sequence_length": tokenizer.max_sequence_length, "additional_special_tokens": list(more)}
        rules["added_tokens"] = list(tokenizer.added_tokens)
    settings = PresetSettings(
        model=written,
        head={name: to_plain(getattr(model, name)) for name in get_head(written).keras_hub_lacks},
        config={name: getattr(encoder.config, name) for name in _CONFIG},
        has_pooler=encoder.pooler is not None,
        tokenizer={name: rules[name] for name in _TOKENIZER if name in rules},
        task=dict(task) if task is not None and written == type(model).__name__ else None,
    )
    write_json(folder / FILE, {"format": _FORMAT, **dataclasses.asdict(settings)})


def read_settings(folder: pathlib.Path) -> PresetSettings | None:
    """Read our file; return None if it does not exist.

    Raises:
        InputError: the file is damaged or has another format.
    """
    path = folder / FILE
    if not path.exists():
        return None
    values = read_json(path)
    if (given := values.get("format")) != _FORMAT:
        raise InputError(f"{path} has format {quote(given)}; this version supports {_FORMAT}: update bert-keras")
    model = read_field(values, "model", str, source=path, choices=[head.model_name for head in HEADS])
    return PresetSettings(
        model,
        _read_part(values, "head", get_head(model).keras_hub_lacks, path),
        _read_part(values, "config", _CONFIG, path),
        read_field(values, "has_pooler", bool, source=path, default=True),
        _read_part(values, "tokenizer", _TOKENIZER, path),
        read_field(values, "task", dict, source=path, default=None),
    )


def _read_part(values: dict, part: str, kinds: dict[str, type], path: pathlib.Path) -> dict:
    """Return an object of the file after checking the types of its values; null means not set."""
    given = read_field(values, part, dict, source=path, default={})
    if unknown := sorted(set(given) - set(kinds)):
        raise InputError(
            f"{path} has {quote(unknown[0])} under {part}, which this version does not know: load the folder with the "
            "version that wrote it"
        )
    source = f"{path}, under {part},"
    return {
        name: read_field(given, name, kinds[name], source=source, default=None, choices=_CHOICES.get(name))
        for name in given
    }


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
    weights = sorted(folder.glob("*.h5"))
    if (index := folder / _INDEX).exists():
        shards = read_field(read_json(index), "weight_map", dict, source=index)
        names = [name for part in shards.values() for name in (part if isinstance(part, list) else [part])]
        weights += [path for name in names if (path := resolve_inside(folder, name, source=index)) not in weights]
    if not all(path.is_file() for path in weights):
        raise InputError(f"{folder} lacks files that {_INDEX} lists: copy the whole folder again")
    num_bytes = sum(path.stat().st_size for path in weights)
    for name, values in configs.items():
        check_fits(values, num_bytes, str(folder / name))
    for path in weights:
        check_h5(path, str(path))
    return read_field(configs.get("task.json", {}), "class_name", str, source=folder / "task.json", default=None)


def iterate_objects(value: object) -> Iterator[dict]:
    """Yield all JSON objects in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def is_metric(part: Mapping) -> bool:
    """Whether an object is a Keras metric."""
    return bool(_METRICS.fullmatch(str(part.get("module"))))


def is_plugin(part: Mapping) -> bool:
    """Whether an object is a model or an encoder that another package registered."""
    module, name = part.get("module"), part.get("class_name")
    registered = {*(head.model for head in HEADS), *(record.encoder for record in ARCHITECTURES.values())}
    return f"{module}:{name}" in registered and not str(module).startswith("bert_keras.")


def _is_allowed(part: Mapping) -> bool:
    """Whether an object has no parameters, `check_fits` counts them, or another package registered it."""
    if is_plugin(part):
        return True
    name, module = str(part["class_name"]), str(part.get("module"))
    package, _, registered = str(part.get("registered_name", name)).rpartition(">")
    root = module.partition(".")[0]
    if root in _KERAS_HUB or package in _KERAS_HUB:
        return name.startswith("Bert") and registered.startswith("Bert")
    if root == "keras":
        return name.endswith("DTypePolicy") if module == "keras" else bool(_WITHOUT_WEIGHTS.fullmatch(module))
    return root == "bert_keras" or "build_config" not in part  # a user's loss or metric has no build_config


def check_fits(config: object, num_bytes: int, source: str) -> None:
    """Raise `InputError` if the model in a Keras config needs more bytes than its weights have.

    A third-party layer or model, whose parameters are not counted, and a huge metric are also errors: Keras builds all
    objects of a config before it reads the weights, even a dense layer with billions of parameters.

    Args:
        config: the content of a `config.json` of Keras, with any number of our models or KerasHub's BERTs.
        num_bytes: size of the weights in bytes.
        source: the path of the config, for the message.
    """
    for part in iterate_objects(config):
        if "class_name" not in part or "config" not in part:
            continue
        if not _is_allowed(part):
            raise InputError(
                f"{source} holds a {quote(part['class_name'])} of {quote(part.get('module'))}; expected models of "
                "bert_keras or KerasHub's BERT, and optimizers, losses and metrics of Keras: copy it again from its "
                "source"
            )
        if not is_metric(part) or not isinstance(part["config"], dict):
            continue
        place = f"{source}, in {quote(part['class_name'])},"
        for names in _METRIC_SIZES:
            one, other = (read_field(part["config"], name, int, source=place, default=None) or 1 for name in names)
            if one * other > _MAX_METRIC_SIZE:
                raise InputError(
                    f"{place} sets {' and '.join(dict.fromkeys(names))} so that the metric has {one * other:,} "
                    f"numbers; expected {_MAX_METRIC_SIZE:,} at most: save the model without this metric"
                )
    metric_configs = {id(part.get("config")) for part in iterate_objects(config) if is_metric(part)}
    hidden_dim, num_classes, num_parameters = 0, 0, 0
    for part in iterate_objects(config):
        if any(name in part for name in (*_SIZES, *_WIDTHS)):
            sizes = {name: _read_size({**_DEFAULTS, **part}, name, source) for name in _SIZES}
            hidden_dim = max(hidden_dim, sizes["hidden_dim"])
            num_parameters += _count_parameters(part, sizes, source)
        if part.get("num_classes") is not None and id(part) not in metric_configs:
            num_classes += _read_size(part, "num_classes", source)
    num_parameters += num_classes * hidden_dim
    if num_parameters > _MAX_PARAMETERS_PER_BYTE * num_bytes:
        raise InputError(
            f"{source} describes a model of {quote(num_parameters)} parameters, and its weights have {num_bytes:,} "
            "bytes: config and weights belong to different models"
        )


def check_h5(file: str | os.PathLike | IO[bytes], source: str) -> None:
    """Raise `InputError` unless a file of Keras weights stores every array completely and uncompressed.

    HDF5 can also declare arrays of any size without storing them, and arrays in other files. Integer arrays with one
    byte per number are codes of a quantized model, which Keras would load as float weights.
    """
    import h5py

    def check(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):  # stored in its file, completely, uncompressed
            is_valid = not item.is_virtual and item.external is None and item.chunks is None
            is_valid = is_valid and item.id.get_storage_size() >= item.nbytes
        else:
            is_valid = all(isinstance(item.get(key, getlink=True), h5py.HardLink) for key in item)
        if not is_valid:
            raise InputError(
                f"{source}: {quote(name)} is not stored completely and uncompressed, as Keras stores weights: copy the "
                "file again from its source"
            )
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iu" and item.dtype.itemsize == 1:
            raise InputError(
                f"{source}: {quote(name)} holds {item.dtype} numbers, codes of a quantized model, which cannot be "
                "loaded; expected float weights: save the model before you call its quantize()"
            )

    try:
        with h5py.File(file, "r") as opened:
            check("/", opened)
            opened.visititems(check)
    except InputError:
        raise
    except Exception as error:  # h5py raises many types of errors for damaged files
        reason = get_first_sentence(error)
        raise InputError(f"{source} is not readable HDF5 ({reason}): copy it again from its source") from None


def get_first_sentence(error: Exception) -> str:
    """Return the first sentence of another library's error message, which can quote a whole file after it."""
    text = str(error).strip() or type(error).__name__
    return re.split(r"(?<=\.)\s|\n", text)[0][:200].rstrip(".")


def _read_size(values: dict, name: str, source: str) -> int:
    return read_field(values, name, int, source=source, minimum=1)


def _count_parameters(values: dict, sizes: dict[str, int], source: str) -> int:
    """Return the number of parameters of an encoder's tables and matrices."""
    hidden = sizes["hidden_dim"]
    width = hidden if values.get("embedding_dim") is None else _read_size(values, "embedding_dim", source)
    segments = next((_read_size(values, name, source) for name in _SEGMENTS if name in values), 1)
    positions = sizes["max_sequence_length"] * width
    if values.get("position_type") == "sinusoidal" and positions <= _FREE_POSITIONS:
        positions = 0
    tables = (sizes["vocabulary_size"] + segments) * width + positions
    return tables + sizes["num_layers"] * (4 * hidden**2 + 2 * hidden * sizes["intermediate_dim"])
