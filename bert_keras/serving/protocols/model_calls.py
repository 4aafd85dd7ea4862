"""Choose the model of a request, and run it on texts, or on arrays as TensorFlow Serving and Triton do.

Both protocols name the inputs of a model. Ours are those of its SavedModel: `serving_default` with texts, `ids` with
token ids.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import HEADS
from bert_keras.heads.signatures import TensorSpec
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call, check_number_of_texts
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.worker.jobs import ANSWERS, IDS, SIGNATURE

SERVING_DEFAULT, ID_SIGNATURE = "serving_default", "ids"
# names of the tasks whose models give vectors, or scores of classes
EMBEDDERS = frozenset(head.name for head in HEADS if head.served_as == "vectors")
SCORERS = frozenset(head.name for head in HEADS if head.served_as == "scores")
_MAX_DIGITS = 19  # of a 64-bit number


class UnknownSignatureError(ServingError):
    """A model has no signature of that name."""


def select_version(repository: ModelRepository, tasks: Collection[str], name: str | None = None) -> ServedVersion:
    """Return the newest version of the named model, or of the only one that does one of the tasks.

    Args:
        repository: the models.
        tasks: the names of the tasks that can answer the request.
        name: the model that the request names.

    Raises:
        ServingError: there is no such model, it does another task, or several could answer.
    """
    wanted = " or ".join(sorted(tasks))
    if name is not None:
        chosen = repository.get(name)
        if (task := chosen.description["task"]) not in tasks:
            raise ServingError(
                Reason.UNSUPPORTED, f"{name} does the task {task}, and this endpoint needs {wanted}: call another"
            )
        return chosen
    newest = {version.name: repository.get(version.name) for version in repository.list_versions()}
    fitting = [version for version in newest.values() if version.description["task"] in tasks]
    if not fitting:
        models = ", ".join(f"{one} ({version.description['task']})" for one, version in sorted(newest.items()))
        raise ServingError(
            Reason.UNSUPPORTED,
            f"this server has no model for the task {wanted}; its models: {models or 'none is loaded'}",
        )
    if len(fitting) > 1:
        names = ", ".join(sorted(version.name for version in fitting))
        raise InputError(f"several models can answer, {names}; name one of them in `model`")
    return fitting[0]


def find_version(call: Call) -> ServedVersion:
    """Return the version that a URL names, by default the newest.

    Raises:
        ServingError: there is no such model, version or label.
    """
    parameters = call.parameters
    return call.repository.get(parameters["name"], read_version(parameters.get("version")), parameters.get("label"))


def read_version(text: str | None) -> int | None:
    """Return the number of a version; None for none.

    Raises:
        InputError: it is not a number.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS):
        raise InputError(f"the version is {quote(text)}; expected a number, or none for the newest")
    return int(text)


def get_specs(version: ServedVersion, signature: str) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the inputs and the outputs of a signature.

    Raises:
        UnknownSignatureError: the model has no such signature.
    """
    signatures = version.description["signatures"]
    if signature not in signatures:
        raise UnknownSignatureError(
            Reason.INVALID,
            f"{version.name} has no signature {quote(signature)}; expected one of {', '.join(signatures)}",
        )
    return signatures[signature]


async def run_signature(
    call: Any, version: ServedVersion, signature: str, inputs: Mapping[str, np.ndarray], wanted: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Run a signature.

    Args:
        call: the request, a `Call` or a `GrpcCall`.
        version: the model.
        signature: the name of the signature.
        inputs: arrays, keyed by name; strings are arrays of `bytes` or `str` objects.
        wanted: the outputs to return; none: all.

    Returns:
        Arrays `(B, ...)`, keyed by name; strings are arrays of `str` objects.

    Raises:
        InputError, ServingError: the inputs are not those of the signature, or there is no such output.
    """
    input_specs, output_specs = get_specs(version, signature)
    known = [spec.name for spec in output_specs]
    _check_names("output", wanted, known, version.name)
    names = [spec.name for spec in input_specs]
    _check_names("input", inputs, names, version.name)
    if signature == SERVING_DEFAULT:
        outputs = await _run_on_texts(call, version, inputs, names)
    else:
        outputs = (await call.run(version, IDS, _read_ids(inputs, version, call.settings.max_texts))).value
    return {name: outputs[name] for name in (wanted or known)}


async def embed(
    call: Call,
    version: ServedVersion,
    texts: Sequence,
    *,
    truncate: bool | None,
    prompt_name: str | None = None,
    dimensions: int | None = None,
    normalize: bool = True,
) -> np.ndarray:
    """Return the vectors `(B, D)` of texts, float32.

    Args:
        call: the request.
        version: the model.
        texts: texts, or lists of token ids; at least one.
        truncate: whether longer texts are cut; otherwise they are errors.
        prompt_name: see `Predictor.with_prompt`.
        dimensions: how many of the first numbers to keep (Kusupati et al. 2022); None: all.
        normalize: whether the vectors get length 1.

    Raises:
        InputError, ServingError: there are too many texts, one cannot be embedded, or the vectors have fewer numbers.
    """
    check_number_of_texts(len(texts), call.settings.max_texts)
    result = await call.run(version, ANSWERS, texts, truncate=bool(truncate), prompt_name=prompt_name)
    vectors = np.stack([answer["embedding"] for answer in result.value])
    if dimensions is not None and dimensions > vectors.shape[1]:
        raise InputError(f"`dimensions` is {dimensions}; expected at most {vectors.shape[1]}, as the model has")
    vectors = vectors[:, :dimensions].astype(np.float32)
    if not normalize:
        return np.ascontiguousarray(vectors)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


async def _run_on_texts(
    call: Any, version: ServedVersion, inputs: Mapping[str, np.ndarray], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Run `serving_default`; without texts on an empty one, so that the outputs have the shapes of the SavedModel's."""
    if missing := [name for name in names if name not in inputs]:
        raise InputError(f"the input {', '.join(missing)} is missing; expected {', '.join(names)}")
    columns = {name: _read_texts(name, inputs[name]) for name in names}
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the inputs have different lengths, {sizes}; expected as many values in each")
    number = sizes[names[0]]
    check_number_of_texts(number, call.settings.max_texts)
    rows = zip(*columns.values(), strict=True) if number else [("",) * len(names)]
    texts = [row[0] for row in rows] if len(names) == 1 else list(rows)
    outputs = (await call.run(version, SIGNATURE, texts)).value
    return {name: values[:number] for name, values in outputs.items()}


def _check_names(kind: str, given: Collection[str], known: Sequence[str], model: str) -> None:
    if wrong := [name for name in given if name not in known]:
        raise InputError(f"{model} has no {kind} {format_names(wrong)}; expected {', '.join(known)}: correct the name")


def _read_texts(name: str, values: np.ndarray) -> list[str]:
    """Return the texts of an array `(B,)` or `(B, 1)`; bytes that are not UTF-8 are replaced, as in the SavedModel."""
    if values.dtype.kind not in "OSU":
        raise InputError(f"{name} has the type {values.dtype}; expected strings")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{name} has the shape {list(values.shape)}; expected (B,)")
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.tolist()]


def _read_ids(inputs: Mapping[str, np.ndarray], version: ServedVersion, max_texts: int) -> dict[str, np.ndarray]:
    """Return the arrays of token ids `(B, S)` int32; a missing attention_mask is 1, missing token_type_ids are 0."""
    if "input_ids" not in inputs:
        raise InputError("the input input_ids is missing; expected token ids (B, S)")
    shape = inputs["input_ids"].shape
    if 0 in shape:
        raise InputError(f"input_ids has the shape {list(shape)}; expected at least one sequence with tokens")
    limits = {"input_ids": version.description["vocabulary_size"], "attention_mask": 2, "token_type_ids": 2}
    ids = {"attention_mask": np.ones(shape, np.int32), "token_type_ids": np.zeros(shape, np.int32)}
    for name, values in inputs.items():
        if values.dtype.kind not in "iu":
            raise InputError(f"{name} has the type {values.dtype}; expected integers")
        if values.ndim != 2 or values.shape != shape:
            raise InputError(
                f"{name} has the shape {list(values.shape)}; expected two dimensions, the same for all inputs"
            )
        if not 0 <= int(values.min()) <= int(values.max()) < limits[name]:
            raise InputError(
                f"{name} has values from {values.min()} to {values.max()}; expected 0 to {limits[name] - 1}"
            )
        ids[name] = values.astype(np.int32)
    check_number_of_texts(shape[0], max_texts)
    longest = version.description["max_positions"]
    if shape[1] > longest:
        raise InputError(f"the sequences have {shape[1]:,} tokens; the model accepts at most {longest:,}")
    return ids
