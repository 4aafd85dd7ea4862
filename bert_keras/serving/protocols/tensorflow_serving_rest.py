"""TensorFlow Serving's REST API: predict, classify, regress, status and metadata.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.heads.signatures import TensorSpec
from bert_keras.serving.http.endpoint import Call, Protocol, Reply, make_json_reply
from bert_keras.serving.http.request_bodies import Body, ListOf
from bert_keras.serving.messages.tensors import find_type
from bert_keras.serving.protocols.model_calls import (
    SERVING_DEFAULT,
    find_version,
    get_specs,
    read_version,
    run_signature,
)
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.served_version import ServedVersion

_PLACES = ("/v1/models/{name}", "/v1/models/{name}/versions/{version}", "/v1/models/{name}/labels/{label}")


class PredictRequest(Body):
    """Inputs in rows, `instances`, or in columns, `inputs`. As in TensorFlow Serving, other fields are ignored."""

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


TENSORFLOW_SERVING = Protocol("TensorFlow Serving")


@TENSORFLOW_SERVING.post(
    *(f"{place}:predict" for place in _PLACES),
    body=PredictRequest,
    answer=PredictAnswer,
    summary="outputs of a signature",
    example={"instances": ["a fine film"]},
)
async def _predict(call: Call) -> Reply:
    version = find_version(call)
    request = call.parse(PredictRequest)
    signature = request.signature_name or SERVING_DEFAULT
    specs, _ = get_specs(version, signature)
    if (request.instances is None) == (request.inputs is None):
        raise InputError("expected either `instances` (rows) or `inputs` (columns): send one of them")
    is_rows = request.instances is not None
    columns = request.inputs
    if is_rows:
        columns = _transpose(request.instances, specs)
    elif not isinstance(columns, dict) or set(columns) == {"b64"}:
        if len(specs) > 1:
            names = ", ".join(spec.name for spec in specs)
            raise InputError(f"`inputs` must be an object with {names}: name the inputs")
        columns = {specs[0].name: columns}
    inputs = {name: _make_array(name, values, specs) for name, values in columns.items()}
    outputs = await run_signature(call, version, signature, inputs)
    if is_rows:
        columns = [values.tolist() if values.dtype == object else values for values in outputs.values()]
        rows = zip(*columns, strict=True)  # keyed by name if there are several outputs
        predictions = list(columns[0]) if len(columns) == 1 else [dict(zip(outputs, row, strict=True)) for row in rows]
        return make_json_reply({"predictions": predictions})
    return make_json_reply({"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs})


async def _answer_examples(find_results: Callable, call: Call) -> Reply:
    """Answer a request to classify or regress."""
    version = find_version(call)
    request = call.parse(ExamplesRequest)
    examples = [{**request.context, **example} for example in request.examples]
    inputs = read_examples(examples, version)
    return make_json_reply({"results": await find_results(call, version, request.signature_name, inputs)})


async def classify(
    call: Any, version: ServedVersion, signature: str, inputs: Mapping[str, np.ndarray]
) -> list[list[tuple[str, np.float32]]]:
    """Return the classes of examples with their probabilities, in the order of the labels.

    Args:
        call: the request, a `Call` or a `GrpcCall`.
        version: the model.
        signature: the signature of the request.
        inputs: what `read_examples` returned.

    Raises:
        InputError: the model has no classes.
    """
    _check_problem(version, signature, is_regression=False)
    outputs = await run_signature(call, version, SERVING_DEFAULT, inputs, ("probabilities",))
    labels = version.description["labels"]
    return [list(zip(labels, row, strict=True)) for row in outputs["probabilities"]]


async def regress(call: Any, version: ServedVersion, signature: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of examples; the arguments are those of `classify`.

    Raises:
        InputError: the model predicts no values.
    """
    _check_problem(version, signature, is_regression=True)
    return (await run_signature(call, version, SERVING_DEFAULT, inputs, ("value",)))["value"]


def read_examples(examples: Sequence[Mapping[str, object]], version: ServedVersion) -> dict[str, np.ndarray]:
    """Return the texts of examples as inputs of `serving_default`.

    Raises:
        InputError: there are no examples, or a feature is missing or not a text.
    """
    if not examples:
        raise InputError("the request has no examples; expected at least one: add it")
    specs, _ = get_specs(version, SERVING_DEFAULT)
    names = [spec.name for spec in specs]
    for example in examples:
        if set(example) != set(names):
            raise InputError(f"the features of one example are {quote(sorted(example))}; expected {', '.join(names)}")
    columns = {name: [example[name] for example in examples] for name in names}
    return {name: _make_array(name, values, specs) for name, values in columns.items()}


def _check_problem(version: ServedVersion, signature: str, *, is_regression: bool) -> None:
    get_specs(version, signature or SERVING_DEFAULT)
    facts = version.description
    is_right = facts["problem"] is not None and (facts["problem"] == "regression") == is_regression
    if signature not in ("", SERVING_DEFAULT) or not is_right:
        kind = "predicts a number" if is_regression else "has classes"
        raise InputError(f"{version.name} does the task {facts['task']}; expected a model that {kind}: call :predict")


for _function, _summary in ((classify, "classes of examples"), (regress, "values of examples")):
    TENSORFLOW_SERVING.post(
        *(f"{place}:{_function.__name__}" for place in _PLACES),
        body=ExamplesRequest,
        answer=ResultsAnswer,
        summary=_summary,
        example={"examples": [{"text": "a fine film"}]},
    )(functools.partial(_answer_examples, _function))


@TENSORFLOW_SERVING.get(*_PLACES, summary="whether versions are loaded", statuses=(400, 401, 404))
async def _get_status(call: Call) -> Reply:
    number = find_version(call).number if "label" in call.parameters else read_version(call.parameters.get("version"))
    return make_json_reply(describe_statuses(call.repository, call.parameters["name"], number))


def describe_statuses(repository: ModelRepository, name: str, number: int | None) -> dict[str, object]:
    """Return the states of the versions of a model as a GetModelStatusResponse in JSON.

    Args:
        repository: the models.
        name: the model.
        number: the only version to describe; None: all.

    Raises:
        ServingError: there is no such model or version.
    """
    statuses = [
        {
            "version": str(version),
            "state": status.state.name,
            "status": {"error_code": "UNKNOWN" if status.message else "OK", "error_message": status.message},
        }
        for version, status in repository.list_statuses(name, number).items()
    ]
    return {"model_version_status": statuses}


@TENSORFLOW_SERVING.get(
    *(f"{place}/metadata" for place in _PLACES), summary="signatures of a model", statuses=(400, 401, 404)
)
async def _get_metadata(call: Call) -> Reply:
    version = find_version(call)
    spec = {"name": version.name, "signature_name": "", "version": str(version.number)}
    return make_json_reply({"model_spec": spec, "metadata": {"signature_def": describe_signatures(version)}})


def describe_signatures(version: ServedVersion) -> dict[str, object]:
    """Return the inputs and outputs of the signatures of a model as a SignatureDefMap in JSON."""
    signatures = {
        name: {
            "inputs": {spec.name: _describe_tensor(name, spec) for spec in inputs},
            "outputs": {spec.name: _describe_tensor("StatefulPartitionedCall", spec) for spec in outputs},
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, (inputs, outputs) in version.description["signatures"].items()
    }
    return {"signature_def": signatures}


def _describe_tensor(prefix: str, spec: TensorSpec) -> dict[str, object]:
    dims = [{"size": str(size), "name": ""} for size in spec.shape]
    shape = {"dim": dims, "unknown_rank": False}
    return {"dtype": find_type(spec.dtype).tensorflow_name, "tensor_shape": shape, "name": f"{prefix}_{spec.name}:0"}


def _transpose(rows: Sequence, specs: Sequence[TensorSpec]) -> dict[str, list]:
    """Return the columns of rows, which are objects, or values if there is one input."""
    if not rows:
        raise InputError("`instances` is empty; expected at least one")
    names = [spec.name for spec in specs]
    if all(isinstance(row, dict) and set(row) != {"b64"} for row in rows):
        keys = list(rows[0])
        if any(set(row) != set(keys) for row in rows):
            raise InputError("the instances have different inputs; expected the same in each")
        return {name: [row[name] for row in rows] for name in keys}
    if len(names) > 1 or any(isinstance(row, dict) and set(row) != {"b64"} for row in rows):
        raise InputError(f"each instance must be an object with the inputs {', '.join(names)}: name the inputs")
    return {names[0]: list(rows)}


def _make_array(name: str, values: object, specs: Sequence[TensorSpec]) -> np.ndarray:
    """Return the array of an input.

    Raises:
        InputError: there is no such input, or the values have another type or differ in length.
    """
    spec = next((spec for spec in specs if spec.name == name), None)
    if spec is None:
        known = ", ".join(spec.name for spec in specs)
        raise InputError(f"there is no input {quote(name)}; expected {known}: correct the name")
    values = values if isinstance(values, list) else [values]
    if spec.dtype == "string":
        return np.array([_read_text(name, value) for value in values], object)
    if not all(isinstance(row, list) and all(type(number) is int for number in row) for row in values):
        raise InputError(f"{name} must be a list of lists of integers")
    if len({len(row) for row in values}) > 1:
        raise InputError(f"the lists of {name} have different lengths: pad them to the longest")
    try:
        return np.array(values, np.int64).reshape(len(values), -1)
    except OverflowError:
        raise InputError(f"{name} has a number of more than 64 bits; expected token ids") from None


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
            raise InputError(f"{name} has b64 {quote(value['b64'])}, which is not base64") from None
    raise InputError(f'{name} has {quote(value)}; expected a string or {{"b64": "..."}}')
