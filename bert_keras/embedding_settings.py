"""What sentence-transformers says of an embedder: poolings and prompts, and the modules in `modules.json`."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bert_keras.checks import check_value, format_names, quote, read_field, resolve_inside
from bert_keras.errors import InputError
from bert_keras.files import read_json

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
MODULES = "modules.json"
_PACKAGE = "sentence_transformers."
_TRANSFORMERS = ("Transformer", "BERT")  # versions before 0.3 named the class after the architecture


def check_pooling(pooling: str | Sequence[str]) -> str | tuple[str, ...]:
    """Return one pooling as its name, several as a tuple of names.

    Raises:
        InputError: the list is empty, or a pooling is unknown.
    """
    names = (pooling,) if isinstance(pooling, str) or not isinstance(pooling, Sequence) else tuple(pooling)
    if not names or any(name not in POOLINGS for name in names):
        raise InputError(
            f"pooling is {quote(pooling)}; expected {', '.join(POOLINGS)}, or a list of these: choose from them"
        )
    return names[0] if len(names) == 1 else names


def check_prompts(prompts: Mapping[str, str] | None, default_name: str | None) -> dict[str, str]:
    """Return the prompts, keyed by name, as a plain dict.

    Raises:
        InputError: a prompt is not a string, or the default prompt does not exist.
    """
    prompts = check_value(dict(prompts or {}), dict[str, str], name="prompts", source="the embedder")
    if default_name is not None:
        get_prompt(prompts, default_name)
    return prompts


def get_prompt(prompts: Mapping[str, str], name: str) -> str:
    """Return the prompt with a name.

    Raises:
        InputError: no prompt has this name; the message lists the names.
    """
    if name in prompts:
        return prompts[name]
    names = [known for known in prompts if known]
    expected = f"one of {format_names(names, most=20)}" if names else "no name, since the model has no prompts"
    raise InputError(f"there is no prompt {quote(name)}; expected {expected}: name another one, or leave it out")


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
