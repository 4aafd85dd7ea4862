"""Answer texts on Ray Serve. Requests that arrive while a batch runs form the next one.

    pip install "ray[serve]" "bert-keras[onnx]"
    serve run examples.ray_serve:build artifact=$PWD/artifacts/onnx
    curl -d '{"text": "a fine film"}' localhost:8000

`artifact` is what `bk.Predictor.from_artifact` accepts. A request names the inputs of its task: `text`, for pairs also
`second_text`; or `question` and `context`. Each replica holds one model and uses one core.
"""

import asyncio

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

import bert_keras as bk


@serve.deployment(num_replicas=1, max_ongoing_requests=128, ray_actor_options={"num_cpus": 1})
class Model:
    """A replica of the model."""

    def __init__(self, artifact: str):
        self._predictor = bk.Predictor.from_artifact(artifact, threads=1)

    async def __call__(self, request: Request) -> JSONResponse:
        """Answer a request."""
        names = self._predictor.task.input_names
        try:
            body = await request.json()
            example = self._predictor.make_example(tuple(body[name] for name in names))
        except (ValueError, KeyError, TypeError):
            return JSONResponse({"error": f"expected a JSON object with the texts {', '.join(names)}"}, 400)
        answer = await self._answer(example)
        return JSONResponse(answer, 400 if "error" in answer else 200)

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.0)
    async def _answer(self, examples: list) -> list[dict]:
        return await asyncio.to_thread(self._answer_batch, examples)  # so that more requests can arrive meanwhile

    def _answer_batch(self, examples: list) -> list[dict]:
        try:
            return self._predictor(examples)
        except bk.InputError as error:
            if len(examples) == 1:
                return [{"error": str(error)}]
            return [answer for example in examples for answer in self._answer_batch([example])]  # only one is wrong


def build(arguments: dict[str, str]) -> serve.Application:
    """Return the application, given the `name=value` arguments of `serve run`."""
    return Model.bind(arguments["artifact"])
