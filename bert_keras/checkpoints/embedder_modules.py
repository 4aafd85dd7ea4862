"""The files by which sentence-transformers knows how a `BertEmbedder` pools."""

import json
import pathlib

from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json

_POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def read_modules(folder: pathlib.Path) -> dict:
    """Returns the settings of the `BertEmbedder` that `modules.json` describes.

    Raises:
        InputError: a module or a pooling that `BertEmbedder` does not compute.
    """
    path = folder / "modules.json"
    try:
        modules = [(module["type"].split(".")[-1], module["path"]) for module in json.loads(path.read_text("utf-8"))]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a list of modules ({error!r}): restore the file from its source") from None
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InputError(f"{path} lists {', '.join(kinds)}; expected Transformer, Pooling and perhaps Normalize")
    return {"pooling": _read_pooling(folder / modules[1][1] / "config.json"), "normalize": "Normalize" in kinds}


def write_modules(model, folder: pathlib.Path, *, max_sequence_length: int | None = None) -> None:
    """Writes the files for a `BertEmbedder`; does nothing for another model.

    `max_sequence_length` is where texts are cut, if sooner than at the model's last position.
    """
    if type(model).__name__ != "BertEmbedder":  # by its name, since reading a folder loads no Keras
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if model.normalize else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    config = model.encoder.config
    modes = {mode: model.pooling == name for name, mode in _POOLINGS.items()}
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": config.hidden_dim, **modes})
    length = min(max_sequence_length or config.max_sequence_length, config.max_sequence_length)
    limits = {"max_seq_length": length, "do_lower_case": False}  # the tokenizer lowers
    write_json(folder / "sentence_bert_config.json", limits)


def _read_pooling(path: pathlib.Path) -> str:
    values = read_json(path)
    chosen = [key for key, value in values.items() if key.startswith("pooling_mode") and value is True]
    named = {mode: name for name, mode in _POOLINGS.items()}
    if values.get("pooling_mode") in _POOLINGS:
        return values["pooling_mode"]
    if len(chosen) != 1 or chosen[0] not in named:
        raise InputError(f"{path} asks for {', '.join(chosen) or 'no pooling'}; expected one of {', '.join(named)}")
    return named[chosen[0]]
