"""The verdict on an artifact: reloaded in a fresh process and compared with its checkpoint, by name."""

import os

import numpy as np
import tensorflow as tf

from bert_keras.export.fresh_process import Request, ask_saved_model
from bert_keras.export.saved_model import TEXT_MODELS, named_outputs, text_length
from bert_keras.features import FEATURES
from bert_keras.pipelines.packing import pack
from bert_keras.pipelines.tokenizer import BertTokenizer

TOLERANCE = 1e-4  # of a float output; measured: 1.2e-6 on a trained tiny classifier, 1.8e-7 on MiniLM's vectors

_TEXTS = (
    "",
    "a",
    "The cat sat on the mat.",
    "naïve café 😀 ﬁ ① 中文 текст",
    "[MASK] and [SEP] are words here",
    "1,234.56 $ % ^ & * ( ) _ + tabs\tand\nlines",
    "Unaffable pneumonoultramicroscopicsilicovolcanoconiosis " * 3,
    "a text that is far longer than the model reads " * 100,
)


def check_saved_model(model, tokenizer: BertTokenizer, folder: str | os.PathLike) -> dict:
    """Runs a SavedModel and its checkpoint on varied inputs and compares every output by its name.

    Each signature sees a batch and single examples, of random ids, lengths and segments, all different.

    Returns:
        `passed`, `tolerance`, `num_inputs`, and by output name the largest difference of floats,
        or the number of values that differ of strings and integers.
    """
    requests = _requests(model, tokenizer)
    answers = ask_saved_model(folder, requests)
    outputs: dict[str, float] = {}
    for request, answer in zip(requests, answers, strict=True):
        expected = _expected(model, tokenizer, request)
        for name in sorted(set(expected) | set(answer)):
            key = f"{request[0]}/{name}"
            outputs[key] = max(outputs.get(key, 0.0), _difference(expected.get(name), answer.get(name)))
    num_inputs = sum(len(next(iter(inputs.values()))) for _, inputs in requests)
    passed = all(difference <= TOLERANCE for difference in outputs.values())
    return {"passed": passed, "tolerance": TOLERANCE, "num_inputs": num_inputs, "outputs": outputs}


def _requests(model, tokenizer: BertTokenizer) -> list[Request]:
    config = getattr(model, "encoder", model).config
    rng = np.random.default_rng(0)
    requests = [("ids", _random_ids(rng, config, batch)) for batch in (1, 5, 7)]
    if isinstance(model, TEXT_MODELS):
        requests.append(("serving_default", {"text": np.array(_TEXTS)}))
        requests += [("serving_default", {"text": np.array([text])}) for text in _TEXTS]
    return requests


def _random_ids(rng: np.random.Generator, config, batch: int) -> dict[str, np.ndarray]:
    """Draws ids with rows of different lengths and both segments, so that no two inputs could change places unseen."""
    length = int(rng.integers(2, config.max_sequence_length + 1))
    lengths = rng.integers(1, length + 1, batch)
    places = np.arange(length)[None, :]
    mask = (places < lengths[:, None]).astype("int32")
    segments = (places > lengths[:, None] // 2).astype("int32") * mask * (config.type_vocabulary_size > 1)
    ids = rng.integers(0, config.vocabulary_size, (batch, length)).astype("int32") * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments.astype("int32")}


def _expected(model, tokenizer: BertTokenizer, request: Request) -> dict[str, np.ndarray]:
    signature, inputs = request
    if signature == "ids":
        features = {
            name: inputs[feature.border_name] for name, feature in FEATURES.items() if feature.border_name in inputs
        }
    else:
        features = pack(tokenizer, inputs["text"], max_sequence_length=text_length(model, tokenizer))
    outputs = named_outputs(model, model(features, training=False))
    return {name: _plain(value) for name, value in outputs.items()}


def _plain(value: tf.Tensor) -> np.ndarray:
    array = np.asarray(value)
    return np.char.decode(array.astype("S"), "utf-8") if array.dtype.kind == "O" else array


def _difference(expected: np.ndarray | None, got: np.ndarray | None) -> float:
    """Returns the largest difference of floats, the count of other values that differ, or infinity without a match."""
    if expected is None or got is None or expected.shape != got.shape or expected.dtype.kind != got.dtype.kind:
        return float("inf")
    if expected.dtype.kind == "f":
        return float(np.max(np.abs(expected - got), initial=0.0)) if np.isfinite(got).all() else float("inf")
    return float(np.sum(expected != got))
