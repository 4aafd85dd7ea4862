"""Sentence vectors of texts, shorter, normalized or as base64 if a client asks for that."""

import base64
from collections.abc import Sequence

import numpy as np

from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call, check_number_of_texts
from bert_keras.serving.models.served_version import ServedVersion
from bert_keras.serving.worker.jobs import ANSWERS


async def embed(
    call: Call, version: ServedVersion, texts: Sequence, *, truncate: bool, prompt_name: str | None
) -> np.ndarray:
    """Return the vectors `(B, D)` of texts, or of lists of token ids; at least one.

    Raises:
        ServingError: there are too many, or one cannot be embedded.
    """
    check_number_of_texts(len(texts), call.settings.max_texts)
    result = await call.run(version, ANSWERS, texts, truncate=truncate, prompt_name=prompt_name)
    return np.stack([answer["embedding"] for answer in result.value])


def shorten_vectors(vectors: np.ndarray, dimensions: int | None, *, normalize: bool) -> np.ndarray:
    """Return the first numbers of vectors (Kusupati et al. 2022), float32.

    Args:
        vectors: `(B, D)`.
        dimensions: how many to keep; None: all.
        normalize: whether the vectors get length 1.

    Raises:
        ServingError: the vectors have fewer numbers.
    """
    if dimensions is not None and dimensions > vectors.shape[1]:
        raise ServingError(
            Reason.INVALID, f"`dimensions` is {dimensions}; expected at most {vectors.shape[1]}, as the model has"
        )
    vectors = vectors[:, :dimensions].astype(np.float32)
    if not normalize:
        return np.ascontiguousarray(vectors)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def encode_base64(vector: np.ndarray) -> str:
    """Return a vector as OpenAI writes it: little-endian float32 in base64."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
