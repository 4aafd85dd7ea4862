"""Run a signature of a model on arrays, as TensorFlow Serving and the Open Inference Protocol do.

Both name the inputs of a model. Ours are those of its SavedModel: `serving_default` with texts, `ids` with token ids.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from bert_keras.checks import format_names, quote
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.models.served_version import ServedVersion
from bert_keras.serving.worker.jobs import IDS, SIGNATURE, Result
from bert_keras.tasks.signatures import TensorSpec

SERVING_DEFAULT, ID_SIGNATURE = "serving_default", "ids"

Run = Callable[..., Awaitable[Result]]  # (version, kind, inputs) -> result, such as `Call.run`


class UnknownSignatureError(ServingError):
    """A model has no signature of that name."""


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


def choose_signature(version: ServedVersion, names: Sequence[str]) -> str:
    """Return the signature with these inputs, for protocols that name no signature."""
    ids = {spec.name for spec in version.description["signatures"][ID_SIGNATURE][0]}
    return ID_SIGNATURE if names and set(names) <= ids else SERVING_DEFAULT


async def run_signature(
    run: Run,
    version: ServedVersion,
    signature: str,
    inputs: Mapping[str, np.ndarray],
    wanted: Sequence[str] = (),
    *,
    max_texts: int,
) -> dict[str, np.ndarray]:
    """Run a signature.

    Args:
        run: runs a job.
        version: the model.
        signature: the name of the signature.
        inputs: arrays, keyed by name; strings are arrays of `bytes` or `str` objects.
        wanted: the outputs to return; none: all.
        max_texts: number of texts or sequences that a request may have.

    Returns:
        Arrays `(B, ...)`, keyed by name; strings are arrays of `str` objects.

    Raises:
        ServingError: the inputs are not those of the signature, or there is no such output.
    """
    input_specs, output_specs = get_specs(version, signature)
    known = [spec.name for spec in output_specs]
    _check_names("output", wanted, known, version.name)
    names = [spec.name for spec in input_specs]
    _check_names("input", inputs, names, version.name)
    if signature == SERVING_DEFAULT:
        outputs = await _run_on_texts(run, version, inputs, names, max_texts)
    else:
        outputs = (await run(version, IDS, _read_ids(inputs, version, max_texts))).value
    return {name: outputs[name] for name in (wanted or known)}


async def _run_on_texts(
    run: Run, version: ServedVersion, inputs: Mapping[str, np.ndarray], names: Sequence[str], max_texts: int
) -> dict[str, np.ndarray]:
    """Run `serving_default`; without texts on an empty one, so that the outputs have the shapes of the SavedModel's."""
    _check_complete(inputs, names)
    columns = [_read_texts(name, inputs[name]) for name in names]
    _check_size(columns, names, max_texts)
    number = len(columns[0])
    columns = columns if number else [[""] for _ in names]
    texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    outputs = (await run(version, SIGNATURE, texts)).value
    return {name: values[:number] for name, values in outputs.items()}


def _check_names(kind: str, given: Sequence[str] | Mapping, known: Sequence[str], model: str) -> None:
    if wrong := [name for name in given if name not in known]:
        raise ServingError(
            Reason.INVALID,
            f"{model} has no {kind} {format_names(wrong)}; expected {', '.join(known)}: correct the name",
        )


def _check_complete(given: Mapping, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in given]:
        raise ServingError(Reason.INVALID, f"the input {', '.join(missing)} is missing; expected {', '.join(names)}")


def _check_size(columns: Sequence[Sequence], names: Sequence[str], max_texts: int) -> None:
    sizes = {name: len(column) for name, column in zip(names, columns, strict=True)}
    if len(set(sizes.values())) > 1:
        raise ServingError(
            Reason.INVALID, f"the inputs have different lengths, {sizes}; expected as many values in each"
        )
    if (number := next(iter(sizes.values()))) > max_texts:
        raise ServingError(
            Reason.TOO_LARGE, f"the request has {number:,} texts; expected at most {max_texts:,}: send several requests"
        )


def _read_texts(name: str, values: np.ndarray) -> list[str]:
    """Return the texts of an array `(B,)` or `(B, 1)`; bytes that are not UTF-8 are replaced, as in the SavedModel."""
    if values.dtype.kind not in "OSU":
        raise ServingError(Reason.INVALID, f"{name} has the type {values.dtype}; expected strings")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ServingError(
            Reason.INVALID,
            f"{name} has the shape {list(values.shape)}; expected (B,)",
        )
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.tolist()]


def _read_ids(inputs: Mapping[str, np.ndarray], version: ServedVersion, max_texts: int) -> dict[str, np.ndarray]:
    """Return the arrays of token ids `(B, S)` int32; a missing attention_mask is 1, missing token_type_ids are 0."""
    if "input_ids" not in inputs:
        raise ServingError(Reason.INVALID, "the input input_ids is missing; expected token ids (B, S)")
    first = inputs["input_ids"]
    if first.size == 0:
        raise ServingError(
            Reason.INVALID, f"input_ids has the shape {list(first.shape)}; expected at least one sequence with tokens"
        )
    limits = {"input_ids": version.description["vocabulary_size"], "attention_mask": 2, "token_type_ids": 2}
    ids = {"attention_mask": np.ones(first.shape, np.int32), "token_type_ids": np.zeros(first.shape, np.int32)}
    for name, values in inputs.items():
        if values.dtype.kind not in "iu":
            raise ServingError(Reason.INVALID, f"{name} has the type {values.dtype}; expected integers")
        if values.ndim != 2 or values.shape != first.shape:
            raise ServingError(
                Reason.INVALID,
                f"{name} has the shape {list(values.shape)}; expected two dimensions, the same for all inputs",
            )
        if not 0 <= int(values.min()) <= int(values.max()) < limits[name]:
            raise ServingError(
                Reason.INVALID,
                f"{name} has values from {values.min()} to {values.max()}; expected 0 to {limits[name] - 1}",
            )
        ids[name] = values.astype(np.int32)
    _check_size([first], ["input_ids"], max_texts)
    longest = version.description["max_positions"]
    if first.shape[1] > longest:
        raise ServingError(
            Reason.INVALID, f"the sequences have {first.shape[1]:,} tokens; the model accepts at most {longest:,}"
        )
    return ids
