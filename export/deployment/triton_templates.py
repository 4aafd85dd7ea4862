"""Templates of the model repository in `deploy/triton/`, for `string.Template`."""

TEXT_CONFIG = """\
# $name for texts: the inputs and outputs of the signature `serving_default` of a SavedModel, with one row per text.
name: "$name"
backend: "python"
max_batch_size: $max_batch_size  # texts per request and per batch

input [
$inputs
]
output [
$outputs
]

# The ONNX folder, next to this file or at an absolute path; "onnx/onnx/model_quantized.onnx" runs the 8-bit file.
parameters { key: "artifact" value { string_value: "onnx" } }
# Batches that run at the same time, with one thread each; by default one per core.
# parameters { key: "instances" value { string_value: "2" } }

# One process, which uses all cores. More would hold the weights again.
instance_group [ { kind: KIND_CPU count: 1 } ]

# Requests that arrive while a batch runs form the next one. At most 512 wait, for at most 30 s.
dynamic_batching {
  default_queue_policy {
    max_queue_size: 512
    default_timeout_microseconds: 30000000
    allow_timeout_override: true
  }
}
"""

IDS_CONFIG = """\
# $name for token ids: the ONNX file itself, in onnxruntime on a GPU or the CPU.
name: "${name}_ids"
backend: "onnxruntime"
max_batch_size: $max_batch_size  # sequences per request and per batch

# The version folder 1/ is not here: the Dockerfile, or you (README.md), puts the files of onnx/onnx/ there, among them
# model_quantized.onnx, which has 8-bit weights.
default_model_filename: "model.onnx"

input [
$inputs
]
output [
$outputs
]

# Only requests with sequences of the same length form a batch.
dynamic_batching { }
"""

TENSOR = """\
  { name: "$name" data_type: $data_type dims: [ $dims ] }"""

TEXT_MODEL = '''\
"""$name for Triton's Python backend: texts in, the outputs of the signature `serving_default` out.

The answers are those of `bert-keras serve`, whose code batches the texts of all requests by their tokens. If one
request cannot be answered, it gets an error and the others get their answers.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib

import triton_python_backend_utils as pb_utils

import bert_keras as bk
from bert_keras.serving.worker.job_runner import JobRunner
from bert_keras.serving.worker.jobs import INVALID, OK, SIGNATURE, Job
from bert_keras.serving.worker.model_opening import warm_up
from bert_keras.tasks.engines.cores import count_cores

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the batches use all cores
NO_DEADLINE = float("inf")  # Triton itself rejects requests that wait too long


class TritonPythonModel:
    """The functions that Triton calls."""

    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        artifact = pathlib.Path(args["model_repository"], parameters["artifact"])
        instances = int(parameters.get("instances", count_cores()))
        predictor = bk.Predictor.from_artifact(artifact, threads=1, instances=instances)
        warm_up(predictor)
        self._input_names, self._output_names = (
            [entry["name"] for entry in config[side]] for side in ("input", "output")
        )
        self._numbers, self._futures = itertools.count(), {}
        self._runner = JobRunner(predictor, self._receive)

    def execute(self, requests):
        futures = [self._submit(request) for request in requests]
        return [self._make_response(future.result()) for future in futures]

    def _submit(self, request):
        number = next(self._numbers)
        future = self._futures[number] = concurrent.futures.Future()
        self._runner.submit(Job(number, SIGNATURE, self._read_texts(request), {}, NO_DEADLINE))
        return future

    def _receive(self, results):
        for result in results:
            self._futures.pop(result.id).set_result(result)

    def _read_texts(self, request):
        columns = [pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel() for name in self._input_names]
        texts = [[text.decode("utf-8", "replace") for text in column] for column in columns]
        return texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))

    def _make_response(self, result):
        if result.status != OK:
            code = pb_utils.TritonError.INVALID_ARG if result.status == INVALID else pb_utils.TritonError.INTERNAL
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(result.value, code))
        outputs = [(name, result.value[name]) for name in self._output_names]
        rows = [(name, values[:, None] if values.ndim == 1 else values) for name, values in outputs]
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, values) for name, values in rows])
'''
