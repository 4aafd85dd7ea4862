"""Read `modules.json` of sentence-transformers: the modules of a model and their folders."""

import pathlib
from typing import NamedTuple

from bert_keras.checks import quote, read_field, resolve_inside
from bert_keras.errors import InputError
from bert_keras.files import read_json

MODULES = "modules.json"
_PACKAGE = "sentence_transformers."
_TRANSFORMERS = ("Transformer", "BERT")  # versions before 0.3 named the class after the architecture


class Module(NamedTuple):
    """A module of a sentence-transformers model.

    Attributes:
        kind: the name of its class, "Pooling" for example.
        folder: the folder of its files.
    """

    kind: str
    folder: pathlib.Path


def read_module_list(folder: pathlib.Path) -> list[Module]:
    """Return the modules of a folder's `modules.json`, in order.

    The path of a class depends on the version (`sentence_transformers.models.Pooling`,
    `sentence_transformers.sentence_transformer.modules.pooling.Pooling`); its last part does not.

    Raises:
        InputError: the file is damaged, or names a path outside the folder or a class of another package.
    """
    path = folder / MODULES
    modules = []
    for entry in read_json(path, kind=list):
        if not isinstance(entry, dict):
            raise InputError(f"{path} lists {quote(entry)}; expected objects: restore the file from its source")
        name = read_field(entry, "type", str, source=path)
        if not name.startswith(_PACKAGE):
            raise InputError(
                f"{path} lists {quote(name)}, a class of the folder's own code, which is not run here; expected "
                "modules of sentence_transformers: use sentence-transformers for this model"
            )
        kind = name.rpartition(".")[2]
        modules.append(
            Module(
                "Transformer" if kind in _TRANSFORMERS else kind,
                resolve_inside(folder, read_field(entry, "path", str, source=path), source=path),
            )
        )
    return modules


def transformer_folder(folder: pathlib.Path) -> pathlib.Path:
    """Return the folder of the encoder and its tokenizer: the one in `modules.json`, else `folder` itself.

    sentence-transformers < 2 wrote them to `0_Transformer`, and a `config.json` without a model to `folder`.

    Raises:
        InputError: see `read_module_list`.
    """
    if not (folder / MODULES).exists():
        return folder
    modules = read_module_list(folder)
    is_followed = modules and modules[0].kind == "Transformer" and modules[0].folder.is_dir()
    return modules[0].folder if is_followed else folder
