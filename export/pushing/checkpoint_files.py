"""Choose the files of a checkpoint folder that are pushed: those of the model, and those that we wrote beside it."""

import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.checkpoints.adapters.adapter_files import ADAPTER_FOLDER
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.reading import read_without_tensorflow
from bert_keras.errors import InputError
from bert_keras.files import read_json
from bert_keras.hub.names import is_hub_name
from bert_keras.staging import LISTING

CARD = "README.md"
_KNOWN = re.compile(
    r"(?:generator/)?(?:config\.json|model\.safetensors)"
    r"|model\.safetensors\.index\.json|model-\d{5}-of-\d{5}\.safetensors"
    r"|vocab\.txt|tokenizer\.json|tokenizer_config\.json|special_tokens_map\.json|added_tokens\.json"
    r"|modules\.json|config_sentence_transformers\.json|sentence_bert_config\.json|\d_(?:Pooling|Normalize)/config\.json"
    r"|0_Transformer/(?:[a-z_]+\.json|vocab\.txt|model\.safetensors)"
    r"|README\.md|SHA256SUMS|metrics\.json|training_log\.jsonl|confusion_matrix\.png"
)
# endings of other files that we wrote; settings (.toml) are left out, because they contain paths of this machine
_NOTES = (".json", ".jsonl", ".txt", ".md", ".csv", ".png", ".svg", ".html")
# a LoRA adapter is left out for the same reason: its config names the checkpoint that it was trained on
_ADAPTER = f"{ADAPTER_FOLDER}/"
_MAX_LISTED = 10_000  # files that are looked at; a checkpoint folder has about ten


class CheckpointFiles(NamedTuple):
    """The files of a checkpoint folder.

    Attributes:
        checkpoint: the checkpoint.
        pushed: the path of each file that is pushed, keyed by its path in the folder.
        left_out: the other files; a folder without files to push as "NAME/".
    """

    checkpoint: Checkpoint
    pushed: dict[str, pathlib.Path]
    left_out: list[str]


def find_checkpoint_files(folder: str | os.PathLike) -> CheckpointFiles:
    """Check a checkpoint folder, and choose the files that are pushed.

    Hidden files, states of trainings and files that we neither know nor wrote are left out.

    Raises:
        InputError: the folder is no checkpoint folder in the format of the Hub, or a file in it is damaged.
    """
    if is_hub_name(folder):
        raise InputError(f"{folder} is on the Hub already; expected a checkpoint folder on this machine: name one")
    folder = pathlib.Path(folder)
    checkpoint = None if folder.suffix == ".keras" and folder.is_file() else read_without_tensorflow(folder)
    if checkpoint is None:
        raise InputError(
            f"{folder} is not in the format of the Hub; expected a checkpoint folder with config.json and "
            "model.safetensors: convert it with  bert-keras convert"
        )
    checkpoint.check_once()
    written = _read_listing(folder)
    pushed, left_out = {}, []
    for name in sorted(_list_files(folder)):
        is_hidden = any(part.startswith(".") for part in name.split("/"))
        is_note = name in written and name.lower().endswith(_NOTES) and not name.startswith(_ADAPTER)
        if not is_hidden and (_KNOWN.fullmatch(name) or is_note):
            pushed[name] = folder / name
        elif name != LISTING:
            left_out.append(name)
    return CheckpointFiles(checkpoint, pushed, _shorten(left_out, pushed))


def _list_files(folder: pathlib.Path) -> Iterator[str]:
    """Yield the paths of the files in a folder, without following links to folders.

    Raises:
        InputError: there are too many.
    """
    number = 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            number += 1
            if number > _MAX_LISTED:
                raise InputError(
                    f"{folder} has more than {_MAX_LISTED:,} files; expected a checkpoint folder: check the path"
                )
            yield (pathlib.Path(root) / name).relative_to(folder).as_posix()


def _read_listing(folder: pathlib.Path) -> set[str]:
    """Return the files that bert-keras wrote to the folder, according to its list of files."""
    try:
        listed = read_json(folder / LISTING).get("files")
    except InputError:
        return set()
    return {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()


def _shorten(names: list[str], pushed: dict[str, pathlib.Path]) -> list[str]:
    """Replace the files of a folder of which nothing is pushed by the name of the folder."""
    used = {name.split("/")[0] for name in pushed if "/" in name}
    short = (f"{name.split('/')[0]}/" if "/" in name and name.split("/")[0] not in used else name for name in names)
    return list(dict.fromkeys(short))
