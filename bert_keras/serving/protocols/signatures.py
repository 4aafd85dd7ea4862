"""Run a signature of a model on arrays, as TensorFlow Serving and the Open Inference Protocol do.

Both name the inputs of a model. Ours are those of its SavedModel: `serving_default` with texts, `ids` with token ids.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from bert_keras.checks import format_names
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.models.served_version import ServedVersion
from bert_keras.serving.worker.jobs import IDS, SIGNATURE, Result
from bert_keras.serving.worker.tensor_spec import TensorSpec

SERVING_DEFAULT, ID_SIGNATURE = "serving_default", "ids"
_MAX_IDS = 2_000_000  # of an array

Run = Callable[..., Awaitable[Result]]  # (version, kind, inputs) -> result, such as `Call.run`


def get_specs(version: ServedVersion, signature: str) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the inputs and the outputs of a signature.

    Raises:
        ServingError: the model has no such signature.
    """
    signatures = version.description["signatures"]
    if signature not in signatures:
        known = ", ".join(signatures)
        raise ServingError(Reason.INVALID, f"{version.name} has no signature {signature!r}; it has {known}")
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
    _check_names("output", wanted, [spec.name for spec in output_specs], version.name)
    names = [spec.name for spec in input_specs]
    _check_names("input", inputs, names, version.name)
    if signature == SERVING_DEFAULT:
        _check_complete(inputs, names)
        columns = [_read_texts(name, inputs[name]) for name in names]
        _check_size(columns, names, max_texts)
        texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        outputs = (await run(version, SIGNATURE, texts)).value if texts else _make_empty(output_specs)
    else:
        ids = _read_ids(inputs, version, max_texts)
        outputs = (await run(version, IDS, ids)).value if ids["input_ids"].size else _make_empty(output_specs)
    return {name: outputs[name] for name in (wanted or [spec.name for spec in output_specs])}


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
        if values.size and not 0 <= int(values.min()) <= int(values.max()) < limits[name]:
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


def _make_empty(specs: Sequence[TensorSpec]) -> dict[str, np.ndarray]:
    """Return outputs for no examples."""
    dtypes = {"string": object}
    return {
        spec.name: np.zeros([0, *(max(0, size) for size in spec.shape[1:])], dtypes.get(spec.dtype, spec.dtype))
        for spec in specs
    }
