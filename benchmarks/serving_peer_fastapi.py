"""Serve a classifier with FastAPI and transformers' pipeline, as in most tutorials. Started by `serving_peers.py`.

    python benchmarks/serving_peer_fastapi.py CHECKPOINT PORT

Requests run in FastAPI's thread pool, each on its own; there are no batches.
"""

import sys

import fastapi
import pydantic
import transformers
import uvicorn


class Request(pydantic.BaseModel):
    """One text, or several."""

    inputs: str | list[str]


app = fastapi.FastAPI()
classify = transformers.pipeline("text-classification", model=sys.argv[1], device="cpu")


@app.post("/predict")
def predict(request: Request) -> list[dict]:
    """Return the label and the score of each text."""
    return classify(request.inputs, truncation=True)


@app.get("/health")
def health() -> dict:
    """Return an empty answer: the model is loaded before the server listens."""
    return {}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
