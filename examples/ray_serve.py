"""Answer texts on Ray Serve. Requests that arrive while a batch runs form the next one.

    pip install "ray[serve]" "bert-keras[onnx]"
    serve run examples.ray_serve:build artifact=$PWD/artifacts/onnx
    curl -d '{"text": "a fine film"}' localhost:8000
    curl -d '{"text": ["Who wrote it?", "A teacher wrote it."]}' localhost:8000    # a pair of texts

`artifact` is what `bk.Predictor.from_artifact` accepts. Each replica holds one model and uses one core.
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
        """Answer one text or pair, so that a wrong one does not fail its batch."""
        try:
            text = (await request.json())["text"]
            example = self._predictor.make_example(tuple(text) if isinstance(text, list) else text)
        except (ValueError, KeyError, TypeError) as error:  # an InputError is a ValueError
            return JSONResponse({"error": f"expected {{'text': ...}}: {error}"}, status_code=400)
        return JSONResponse(await self._answer(example))

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.0)
    async def _answer(self, examples: list) -> list[dict]:
        return await asyncio.to_thread(self._predictor, examples)  # so that the next requests are read meanwhile


def build(arguments: dict[str, str]) -> serve.Application:
    """Return the application, given the `name=value` arguments of `serve run`."""
    return Model.bind(arguments["artifact"])
