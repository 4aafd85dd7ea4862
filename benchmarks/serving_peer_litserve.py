"""Serve a classifier of transformers with LitServe, in batches. Started by `serving_peers.py`.

    python benchmarks/serving_peer_litserve.py CHECKPOINT PORT

A request has one text. One worker process computes batches of at most `MAX_BATCH_SIZE` texts, padded to the longest,
and waits at most `BATCH_TIMEOUT_SECONDS` for more texts.
"""

import sys

import litserve
import torch
import transformers

MAX_BATCH_SIZE = 32
BATCH_TIMEOUT_SECONDS = 0.005


class Classifier(litserve.LitAPI):
    """The functions that LitServe calls in the worker."""

    def setup(self, device: str) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()

    def decode_request(self, request: dict) -> str:
        return request["inputs"]

    def predict(self, texts: list[str]) -> list[dict]:
        with torch.inference_mode():
            logits = self.model(**self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")).logits
        scores, ids = logits.softmax(dim=-1).max(dim=-1)
        labels = self.model.config.id2label
        return [{"label": labels[id], "score": score} for id, score in zip(ids.tolist(), scores.tolist(), strict=True)]

    def encode_response(self, output: dict) -> list[dict]:
        return [output]


if __name__ == "__main__":
    api = Classifier(max_batch_size=MAX_BATCH_SIZE, batch_timeout=BATCH_TIMEOUT_SECONDS)
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="warning")
