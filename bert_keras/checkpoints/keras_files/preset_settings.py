"""Store settings that KerasHub's format lacks in a file of our own in the preset folder, which KerasHub ignores.

These are labels, the problem of a classifier, lengths, prompts, rules of the tokenizer and the task. This module does
not import Keras.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from bert_keras.checks import quote, read_field
from bert_keras.config import PROBLEMS
from bert_keras.embedding_settings import SIMILARITIES
from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.heads.known_heads import HEADS, get_head

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
        head={name: _to_json(getattr(model, name)) for name in get_head(written).keras_hub_lacks},
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


def _to_json(value: object) -> object:
    """Convert mappings and tuples to dicts and lists."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
