"""TensorFlow Serving's REST API: predict, classify, regress, status and metadata.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic

from bert_keras.checks import quote
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call, Endpoint, Reply, format_plain_error, make_json_reply
from bert_keras.serving.http.json_errors import ListOf
from bert_keras.serving.models.served_version import ServedVersion
from bert_keras.serving.protocols.selection import find_version, read_version
from bert_keras.serving.protocols.signatures import SERVING_DEFAULT, get_specs, run_signature
from bert_keras.serving.protocols.tasks import STATUSES
from bert_keras.tasks.signatures import TensorSpec

_TAG = "TensorFlow Serving"
_PLACES = ("/v1/models/{name}", "/v1/models/{name}/versions/{version}", "/v1/models/{name}/labels/{label}")
TENSOR_TYPES = {"string": "DT_STRING", "float32": "DT_FLOAT", "int32": "DT_INT32"}


class PredictRequest(pydantic.BaseModel):
    """Inputs in rows, `instances`, or in columns, `inputs`. As in TensorFlow Serving, other fields are ignored."""

    model_config = pydantic.ConfigDict(strict=True)

    signature_name: str = SERVING_DEFAULT
    instances: list[Any] | None = None
    inputs: Any = None


class ExamplesRequest(pydantic.BaseModel):
    """Examples with named features; `context` has features that all share."""

    model_config = pydantic.ConfigDict(strict=True)

    signature_name: str = SERVING_DEFAULT
    context: dict[str, Any] = {}
    examples: Annotated[ListOf[dict[str, Any]], pydantic.Field(min_length=1)]


class PredictAnswer(pydantic.BaseModel):
    """Outputs in rows, or in columns."""

    predictions: list[Any] | None = None
    outputs: Any = None


class ResultsAnswer(pydantic.BaseModel):
    """For each example its classes with their scores, or its value."""

    results: list[Any]


_PREDICT, _EXAMPLES = pydantic.TypeAdapter(PredictRequest), pydantic.TypeAdapter(ExamplesRequest)


def make_tensorflow_serving_endpoints() -> list[Endpoint]:
    """Return the endpoints of TensorFlow Serving."""
    examples = {"examples": [{"text": "a fine film"}]}
    rows: list[tuple[str, Any, Any, Any, str, dict]] = [
        ("predict", _predict, PredictRequest, PredictAnswer, "outputs of a signature", {"instances": ["a fine film"]}),
        ("classify", _classify, ExamplesRequest, ResultsAnswer, "classes of examples", examples),
        ("regress", _regress, ExamplesRequest, ResultsAnswer, "values of examples", examples),
    ]
    posts = [
        Endpoint("POST", f"{place}:{verb}", handler, summary, _TAG, format_plain_error, body, answer, STATUSES, example)
        for verb, handler, body, answer, summary, example in rows
        for place in _PLACES
    ]
    gets = [
        Endpoint("GET", place + end, handler, summary, _TAG, format_plain_error, answer=dict, statuses=(400, 401, 404))
        for end, handler, summary in (
            ("", _get_status, "whether versions are loaded"),
            ("/metadata", _get_metadata, "signatures of a model"),
        )
        for place in _PLACES
    ]
    return [*posts, *gets]


async def _predict(call: Call) -> Reply:
    version = find_version(call)
    request: PredictRequest = call.parse(_PREDICT)
    signature = request.signature_name or SERVING_DEFAULT
    specs, _ = get_specs(version, signature)
    if (request.instances is None) == (request.inputs is None):
        raise ServingError(Reason.INVALID, "expected either `instances` (rows) or `inputs` (columns): send one of them")
    is_rows = request.instances is not None
    columns = _transpose(request.instances, specs) if is_rows else _read_columns(request.inputs, specs)
    inputs = {name: _make_array(name, values, specs) for name, values in columns.items()}
    outputs = await run_signature(call.run, version, signature, inputs, max_texts=call.settings.max_texts)
    if not is_rows:
        return make_json_reply({"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs})
    return make_json_reply({"predictions": _make_rows(outputs)})


def _make_rows(outputs: Mapping[str, np.ndarray]) -> list:
    """Return the outputs of each example, keyed by name if there are several."""
    columns = [values.tolist() if values.dtype == object else values for values in outputs.values()]
    if len(columns) == 1:
        return list(columns[0])
    return [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]


async def _classify(call: Call) -> Reply:
    version = find_version(call)
    request: ExamplesRequest = call.parse(_EXAMPLES)
    texts = read_examples([{**request.context, **example} for example in request.examples], version)
    return make_json_reply({"results": await classify(call, version, request.signature_name, texts)})


async def _regress(call: Call) -> Reply:
    version = find_version(call)
    request: ExamplesRequest = call.parse(_EXAMPLES)
    texts = read_examples([{**request.context, **example} for example in request.examples], version)
    return make_json_reply({"results": await regress(call, version, request.signature_name, texts)})


async def classify(
    call: Any, version: ServedVersion, signature: str, inputs: Mapping[str, np.ndarray]
) -> list[list[tuple[str, np.float32]]]:
    """Return the classes of examples with their probabilities, in the order of the labels.

    Args:
        call: has `run` and `settings`.
        version: the model.
        signature: the signature of the request.
        inputs: what `read_examples` returned.

    Raises:
        ServingError: the model has no classes.
    """
    _check_problem(version, signature, is_regression=False)
    outputs = await run_signature(
        call.run, version, SERVING_DEFAULT, inputs, ("probabilities",), max_texts=call.settings.max_texts
    )
    labels = version.description["labels"]
    return [list(zip(labels, row, strict=True)) for row in outputs["probabilities"]]


async def regress(call: Any, version: ServedVersion, signature: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of examples; the arguments are those of `classify`.

    Raises:
        ServingError: the model predicts no values.
    """
    _check_problem(version, signature, is_regression=True)
    outputs = await run_signature(
        call.run, version, SERVING_DEFAULT, inputs, ("value",), max_texts=call.settings.max_texts
    )
    return outputs["value"]


def read_examples(examples: Sequence[Mapping[str, object]], version: ServedVersion) -> dict[str, np.ndarray]:
    """Return the texts of examples as inputs of `serving_default`.

    Raises:
        ServingError: there are no examples, or a feature is missing or not a text.
    """
    if not examples:
        raise ServingError(Reason.INVALID, "the request has no examples; expected at least one: add it")
    specs, _ = get_specs(version, SERVING_DEFAULT)
    names = [spec.name for spec in specs]
    for example in examples:
        if set(example) != set(names):
            raise ServingError(
                Reason.INVALID, f"the features of one example are {quote(sorted(example))}; expected {', '.join(names)}"
            )
    columns = {name: [example[name] for example in examples] for name in names}
    return {name: _make_array(name, values, specs) for name, values in columns.items()}


def _check_problem(version: ServedVersion, signature: str, *, is_regression: bool) -> None:
    get_specs(version, signature or SERVING_DEFAULT)
    facts = version.description
    is_right = facts["task"] == "classify" and (facts["problem"] == "regression") == is_regression
    if signature not in ("", SERVING_DEFAULT) or not is_right:
        kind = "predicts a number" if is_regression else "has classes"
        raise ServingError(
            Reason.INVALID, f"{version.name} does the task {facts['task']}; expected a model that {kind}: call :predict"
        )


async def _get_status(call: Call) -> Reply:
    number = find_version(call).number if "label" in call.parameters else read_version(call.parameters.get("version"))
    statuses = call.repository.list_statuses(call.parameters["name"], number)
    return make_json_reply(
        {
            "model_version_status": [
                {
                    "version": str(version),
                    "state": status.state.name,
                    "status": {
                        "error_code": "UNKNOWN" if status.message else "OK",
                        "error_message": status.message,
                    },
                }
                for version, status in statuses.items()
            ]
        }
    )


async def _get_metadata(call: Call) -> Reply:
    version = find_version(call)
    signatures = {
        name: {
            "inputs": {spec.name: _describe_tensor(name, spec) for spec in inputs},
            "outputs": {spec.name: _describe_tensor("StatefulPartitionedCall", spec) for spec in outputs},
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, (inputs, outputs) in version.description["signatures"].items()
    }
    return make_json_reply(
        {
            "model_spec": {"name": version.name, "signature_name": "", "version": str(version.number)},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }
    )


def _describe_tensor(prefix: str, spec: TensorSpec) -> dict[str, object]:
    dims = [{"size": str(size), "name": ""} for size in spec.shape]
    shape = {"dim": dims, "unknown_rank": False}
    return {"dtype": TENSOR_TYPES[spec.dtype], "tensor_shape": shape, "name": f"{prefix}_{spec.name}:0"}


def _transpose(rows: Sequence, specs: Sequence[TensorSpec]) -> dict[str, list]:
    """Return the columns of rows, which are objects, or values if there is one input."""
    if not rows:
        raise ServingError(Reason.INVALID, "`instances` is empty; expected at least one")
    names = [spec.name for spec in specs]
    if all(isinstance(row, dict) and set(row) != {"b64"} for row in rows):
        keys = list(rows[0])
        if any(set(row) != set(keys) for row in rows):
            raise ServingError(Reason.INVALID, "the instances have different inputs; expected the same in each")
        return {name: [row[name] for row in rows] for name in keys}
    if len(names) > 1 or any(isinstance(row, dict) and set(row) != {"b64"} for row in rows):
        raise ServingError(
            Reason.INVALID, f"each instance must be an object with the inputs {', '.join(names)}: name the inputs"
        )
    return {names[0]: list(rows)}


def _read_columns(inputs: object, specs: Sequence[TensorSpec]) -> dict[str, object]:
    if isinstance(inputs, dict) and set(inputs) != {"b64"}:
        return inputs
    if len(specs) > 1:
        names = ", ".join(spec.name for spec in specs)
        raise ServingError(Reason.INVALID, f"`inputs` must be an object with {names}: name the inputs")
    return {specs[0].name: inputs}


def _make_array(name: str, values: object, specs: Sequence[TensorSpec]) -> np.ndarray:
    """Return the array of an input.

    Raises:
        ServingError: there is no such input, or the values have another type or differ in length.
    """
    spec = next((spec for spec in specs if spec.name == name), None)
    if spec is None:
        known = ", ".join(spec.name for spec in specs)
        raise ServingError(Reason.INVALID, f"there is no input {quote(name)}; expected {known}: correct the name")
    values = values if isinstance(values, list) else [values]
    if spec.dtype == "string":
        array = np.empty(len(values), object)
        array[:] = [_read_text(name, value) for value in values]
        return array
    if not all(isinstance(row, list) and all(type(number) is int for number in row) for row in values):
        raise ServingError(Reason.INVALID, f"{name} must be a list of lists of integers")
    if len({len(row) for row in values}) > 1:
        raise ServingError(Reason.INVALID, f"the lists of {name} have different lengths: pad them to the longest")
    try:
        return np.array(values, np.int64).reshape(len(values), -1)
    except OverflowError:
        raise ServingError(Reason.INVALID, f"{name} has a number of more than 64 bits; expected token ids") from None


def _read_text(name: str, value: object) -> str | bytes:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        text = "".join(value["b64"].split()).rstrip("=")  # padding is optional, as in TensorFlow Serving
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise ServingError(Reason.INVALID, f"{name} has b64 {quote(value['b64'])}, which is not base64") from None
    raise ServingError(Reason.INVALID, f'{name} has {quote(value)}; expected a string or {{"b64": "..."}}')
