"""Download the files of a model from the Hub into the cache of huggingface_hub: only those that we read, no pickles."""

import glob
import logging
import pathlib
import re
import types
from collections.abc import Callable, Collection, Mapping

from bert_keras.checks import format_names
from bert_keras.errors import InputError
from bert_keras.hub.client import find_token, is_unreachable, one_sentence_errors, open_hub
from bert_keras.hub.names import HubName, parse_hub_name

logger = logging.getLogger(__name__)

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ONNX_FLOAT32, ONNX_INT8 = "model.onnx", "model_quantized.onnx"
# folders of sentence-transformers' modules, of ELECTRA's generator, and of KerasHub's vocabulary
_FOLDER = r"(?:\d{1,2}_[A-Za-z]{1,40}/|generator/|assets/tokenizer/)?"
_SMALL = re.compile(rf"{_FOLDER}(?:[^/]+\.(?:json|txt)|SHA256SUMS|README\.md)")
_SAFETENSORS = re.compile(r"(?:\d{1,2}_[A-Za-z]{1,40}/|generator/)?[^/]+\.safetensors")
_GOOGLE = re.compile(r"[^/]+\.ckpt[^/]*\.(?:index|data-\d{5}-of-\d{5})")
_KERAS_HUB = re.compile(r"(?:model|task|model_\d{5})\.weights\.h5")
_ONNX_DATA = r"(?:_data(?:_\d+)?|\.data)"  # endings of the files with the weights of a large ONNX file
_PICKLES = re.compile(r".*\.(?:bin|pt|pth|ckpt|pkl|msgpack|h5|ot)")

Report = Callable[[str], None]


def download_folder(
    name: str, *, with_weights: bool = True, onnx: str | None = None, report: Report | None = None
) -> pathlib.Path:
    """Return the local folder of a model of the Hub, after downloading the files that are not in the cache.

    HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE work as in huggingface_hub. If the Hub cannot be reached, the
    files in the cache are used.

    Args:
        name: see `parse_hub_name`.
        with_weights: whether to download the weights; without them, a tokenizer can be loaded.
        onnx: the ONNX file to download too: `ONNX_FLOAT32` or `ONNX_INT8`.
        report: called with a line of text before a download, and when the cache is used because the Hub cannot be
            reached. Default: the line is logged.

    Raises:
        InputError: the name is invalid; there is no such model, it is private or gated; the Hub cannot be reached; or
            the repository has no model that we read, or no such ONNX file.
        MissingExtraError: huggingface_hub is not installed.
    """
    parsed, report = parse_hub_name(name), report or logger.info
    hub = open_hub(f"loading {name}")
    if hub.constants.HF_HUB_OFFLINE:
        return _find_in_cache(hub, parsed, "HF_HUB_OFFLINE is set", with_weights=with_weights, onnx=onnx)
    token = find_token(hub)
    with one_sentence_errors(str(parsed), token):
        api = hub.HfApi(token=token or False, library_name="bert-keras")
        try:
            info = api.model_info(parsed.repository, revision=parsed.revision, files_metadata=True)
        except Exception as error:
            if not is_unreachable(error):
                raise
            info = None
    if info is None:
        reason = "the Hugging Face Hub cannot be reached"
        folder = _find_in_cache(hub, parsed, reason, with_weights=with_weights, onnx=onnx)
        report(f"{parsed}: {reason}, so the copy in the cache is used")
        return folder
    sizes = {file.rfilename: file.size or 0 for file in info.siblings}
    chosen = choose_files(parsed, sizes, with_weights=with_weights, onnx=onnx)
    with one_sentence_errors(str(parsed), token):
        cached = [hub.try_to_load_from_cache(parsed.repository, file, revision=info.sha) for file in chosen]
    missing = [file for file, path in zip(chosen, cached, strict=True) if not isinstance(path, str)]
    if missing:
        size = sum(sizes[file] for file in missing) / 1e6
        report(f"downloading {parsed}: {len(missing):,} files, {size:,.1f} MB")
    with one_sentence_errors(str(parsed), token):
        snapshot = hub.snapshot_download(
            parsed.repository,
            revision=parsed.revision,
            allow_patterns=[glob.escape(file) for file in chosen],
            token=token or False,
            library_name="bert-keras",
        )
    return pathlib.Path(snapshot) / parsed.subfolder


def choose_files(
    name: HubName, files: Collection[str] | Mapping[str, int], *, with_weights: bool = True, onnx: str | None = None
) -> list[str]:
    """Return the files of a repository to download.

    Args:
        name: the model.
        files: the paths of all files of the repository.
        with_weights: whether to choose the weights.
        onnx: the ONNX file to choose, `ONNX_FLOAT32` or `ONNX_INT8`, with the files of its weights; None: no ONNX file.

    Raises:
        InputError: there is no model in a format that we read, or no such ONNX file.
    """
    start = f"{name.subfolder}/" if name.subfolder else ""
    inside = [file.removeprefix(start) for file in sorted(files) if file.startswith(start)]
    chosen = [file for file in inside if _SMALL.fullmatch(file)]
    weights = _choose_weights(inside)
    if with_weights:
        chosen += weights
    if onnx is not None:
        chosen += _choose_onnx(name, inside, onnx)
    if not chosen or (with_weights and not weights):
        raise InputError(_describe_missing(name, inside))
    return [start + file for file in chosen]


def _choose_weights(files: list[str]) -> list[str]:
    """Return the files with weights: safetensors, else KerasHub's, else those of Google's TF1 checkpoints."""
    safetensors = [file for file in files if _SAFETENSORS.fullmatch(file)]
    if WEIGHTS in files:  # other safetensors files next to it are copies with another precision, or adapters
        return [file for file in safetensors if "/" in file or file == WEIGHTS]
    if INDEX in files or any("/" in file and not file.startswith("generator/") for file in safetensors):
        return safetensors
    if "metadata.json" in files and (keras := [file for file in files if _KERAS_HUB.fullmatch(file)]):
        return keras
    return [file for file in files if _GOOGLE.fullmatch(file)] if "bert_config.json" in files else []


def _choose_onnx(name: HubName, files: list[str], wanted: str) -> list[str]:
    """Return an ONNX file, at the root or in onnx/, and the files of its weights."""
    place = next((place for place in (wanted, f"onnx/{wanted}") if place in files), None)
    if place is None:
        others = [file for file in files if file.endswith(".onnx")]
        found = f"only the ONNX files {format_names(others)}" if others else "no ONNX file"
        raise InputError(
            f"{name} has {found}; expected onnx/{wanted}: push it with --artifacts, or run the model without --engine "
            "and --quantized"
        )
    return [file for file in files if re.fullmatch(re.escape(place) + f"(?:{_ONNX_DATA})?", file)]


def _describe_missing(name: HubName, files: list[str]) -> str:
    if not files:
        return f"{name} has no files: check the name and the subfolder"
    pickles = [file for file in files if _PICKLES.fullmatch(file)]
    found = f"its weights in {format_names(pickles)}" if pickles else f"only {format_names(files)}"
    fix = ", which can run code or needs other libraries; ask its owners for safetensors" if pickles else ""
    return (
        f"{name} has {found}{fix}; expected {WEIGHTS} (Hugging Face), *.ckpt.index with bert_config.json (Google) or "
        "model.weights.h5 with metadata.json (KerasHub): load another model or revision"
    )


def _find_in_cache(
    hub: types.ModuleType, name: HubName, reason: str, *, with_weights: bool, onnx: str | None
) -> pathlib.Path:
    """Return the folder of a model in the cache, without requests.

    Raises:
        InputError: it is not there, or without the weights or the ONNX file: only a tokenizer was loaded, or a download
            was interrupted.
    """
    config = f"{name.subfolder}/config.json" if name.subfolder else "config.json"
    fix = (
        "expected a network connection, or a model that was loaded before: connect, unset HF_HUB_OFFLINE, or check "
        "HF_HOME"
    )
    try:
        found = hub.snapshot_download(
            name.repository, revision=name.revision, local_files_only=True, allow_patterns=[glob.escape(config)]
        )
    except Exception:
        found = None
    if found is None or not ((snapshot := pathlib.Path(found)) / name.subfolder).is_dir():
        raise InputError(f"{name} is not in the cache, and {reason}; {fix}")
    files = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()]
    try:
        choose_files(name, files, with_weights=with_weights, onnx=onnx)
    except InputError:
        raise InputError(f"{name} is only partly in the cache, and {reason}; {fix}") from None
    return snapshot / name.subfolder
