"""Choose the files that are pushed: those of a checkpoint folder, and the artifacts that were exported from it."""

import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bert_keras.checkpoints.adapters.adapter_files import ADAPTER_FOLDER
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.weights_file import hash_weights
from bert_keras.checkpoints.reading import read_without_tensorflow
from bert_keras.checks import format_names, read_field
from bert_keras.engines.artifact_files import DESCRIPTION
from bert_keras.errors import InputError
from bert_keras.export.targets import PARITY, read_parity_report
from bert_keras.files import format_json, read_json
from bert_keras.hub.names import is_hub_name
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.staging import LISTING

CARD = "README.md"
_TFLITE_FILES = ("README.md", "labels.txt", "vocab.txt", "model.json", "parity.json")  # beside the .tflite files
_WRITTEN_AFTER_CHECK = "/assets.extra/parity.json"  # in a SavedModel
_FIX = "run bert-keras export again, and push its output folder"
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


class PushedFiles(NamedTuple):
    """Files that are pushed.

    Attributes:
        files: the path or content of each file, keyed by its path in the repository.
        left_out: files of the checkpoint folder, or artifacts of the output folder, that are not pushed; a folder
            without files to push as "NAME/".
        artifacts: the paths of the artifacts in the repository.
    """

    files: dict[str, pathlib.Path | bytes]
    left_out: list[str]
    artifacts: Sequence[str] = ()


def find_checkpoint_files(folder: str | os.PathLike) -> tuple[Checkpoint, PushedFiles]:
    """Check a checkpoint folder, and return the checkpoint and the files that are pushed.

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
    for name in sorted(_walk_files(folder)):
        is_hidden = any(part.startswith(".") for part in name.split("/"))
        is_note = name in written and name.lower().endswith(_NOTES) and not name.startswith(_ADAPTER)
        if not is_hidden and (_KNOWN.fullmatch(name) or is_note):
            pushed[name] = folder / name
        elif name != LISTING:
            left_out.append(name)
    return checkpoint, PushedFiles(pushed, _shorten(left_out, pushed))


def _walk_files(folder: pathlib.Path) -> Iterator[str]:
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


def find_artifact_files(
    out: str | os.PathLike, checkpoint: Checkpoint, *, with_saved_model: bool = False
) -> PushedFiles:
    """Choose the ONNX and TFLite files of an output folder of `export`, and their places in a repository.

    ONNX files get the names that transformers.js and optimum expect, `onnx/model.onnx` and `onnx/model_quantized.onnx`;
    they use the configuration and the tokenizer of the checkpoint. `tflite/` has a vocabulary of its own.

    Args:
        out: the output folder.
        checkpoint: the checkpoint that is pushed.
        with_saved_model: whether to push the newest version of the SavedModel.

    Raises:
        InputError: there is no parity report, an artifact did not pass the check or was changed after it, or belongs
            to another checkpoint; or `with_saved_model` is set and there is no SavedModel.
    """
    out = pathlib.Path(out)
    if not out.is_dir():
        kind = "is not a folder" if out.exists() else "does not exist"
        raise InputError(f"{out} {kind}; expected an output folder of bert-keras export: check the path")
    if not (out / PARITY).is_file():
        raise InputError(f"{out} has no {PARITY}, so nothing shows that its artifacts equal the checkpoint: {_FIX}")
    reports = read_parity_report(out / PARITY)
    if failed := sorted(name for name, report in reports.items() if report.get("passed") is not True):
        raise InputError(f"{out / PARITY} says that {format_names(failed)} differs from the checkpoint: {_FIX}")
    files: dict[str, pathlib.Path | bytes] = {}
    # the place of each artifact in a repository, keyed by its path in the output folder
    places = {path.relative_to(out).as_posix(): f"onnx/{path.name}" for path in sorted(out.glob("onnx/onnx/*.onnx"))}
    places |= {f"tflite/{path.name}": f"tflite/{path.name}" for path in sorted(out.glob("tflite/*.tflite"))}
    versions = [name for name in reports if re.fullmatch(r"saved_model/\d+", name) and (out / name).is_dir()]
    if with_saved_model and not versions:
        raise InputError(
            f"{out} has no SavedModel with a parity report; expected saved_model/VERSION: export it with "
            "--to saved_model, or push without it"
        )
    if with_saved_model:
        newest = max(versions, key=lambda name: int(name.rpartition("/")[2]))
        places[newest] = newest
    weights = hash_weights(checkpoint.source)
    for name, place in places.items():
        _check_unchanged(out, name, reports)
        recorded = reports[name].get("weights_sha256")
        if recorded is not None and recorded != weights:  # before release 0.2, reports had no hash
            raise InputError(f"{out / name} was exported from other weights than those of {checkpoint}: {_FIX}")
        _check_vocabulary(out, name, reports[name], checkpoint)
        files |= _list_files(out / name, place)
    if not places:
        raise InputError(f"{out} has no ONNX or TFLite file to push: {_FIX}")
    if any(name.startswith("tflite/") for name in places):
        files |= {f"tflite/{name}": path for name in _TFLITE_FILES if (path := out / "tflite" / name).is_file()}
    moved = {place: reports[name] for name, place in places.items()}
    files[PARITY] = (format_json({"artifacts": moved}, indent=2) + "\n").encode()  # without the path of the checkpoint
    return PushedFiles(dict(sorted(files.items())), sorted(set(reports) - set(places)), sorted(moved))


def _list_files(artifact: pathlib.Path, place: str) -> dict[str, pathlib.Path]:
    """Return the files of an artifact except hidden ones, keyed by their paths in the repository."""
    if artifact.is_file():
        return {place: artifact}
    names = {path.relative_to(artifact).as_posix(): path for path in sorted(artifact.rglob("*")) if path.is_file()}
    return {f"{place}/{name}": path for name, path in names.items() if not f"/{name}".count("/.")}


def _check_unchanged(out: pathlib.Path, name: str, reports: Mapping[str, dict]) -> None:
    """Raise `InputError` unless an artifact is the one that was checked."""
    if name not in reports:
        raise InputError(f"{out / PARITY} has no report of {name}, so nothing shows that it equals the model: {_FIX}")
    expected = read_field(reports[name], "bytes", int, source=f"{out / PARITY}, under {name},")
    checked = {place: path for place, path in _list_files(out / name, "").items() if place != _WRITTEN_AFTER_CHECK}
    actual = sum(path.stat().st_size for path in checked.values())
    if actual != expected:
        raise InputError(
            f"{out / name} has {actual:,} bytes, and {expected:,} when it was compared with the checkpoint: {_FIX}"
        )


def _check_vocabulary(out: pathlib.Path, name: str, report: Mapping, checkpoint: Checkpoint) -> None:
    """Raise `InputError` unless an artifact uses the tokenizer of the checkpoint, or has its own."""
    if name.startswith("tflite/") and "trimmed_vocabulary" in report:
        return  # tflite/ has a vocabulary and a description of its own
    place = {"onnx": out / "onnx", "tflite": out / "tflite"}.get(name.split("/")[0], out / name / DESCRIPTION)
    expected_vocabulary = (checkpoint.tokenizer_settings or {}).get("vocabulary", ())
    if TokenizerFolder(place).vocabulary != list(expected_vocabulary):
        trimmed = ", because it was exported with --trim-vocabulary" if "trimmed_vocabulary" in report else ""
        raise InputError(
            f"{out / name} has another vocabulary than {checkpoint}{trimmed}; expected that of the checkpoint, whose "
            "tokenizer a repository has: export the checkpoint again without trimming, or push without --artifacts"
        )
