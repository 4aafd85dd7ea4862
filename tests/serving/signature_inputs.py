"""Texts for which the server and a SavedModel must give the same outputs, and the comparison."""

import base64

import numpy as np

# empty and long texts, unknown words, invalid UTF-8, control characters, accents at the edges of words
TEXTS = [
    b"the cat sat on a mat .",
    b"dog",
    b"every dog ran off with its red hat , and the cat sat on the mat . the dog and a cat ran off with a hat",
    b"",
    " Ünkn öwn 東京 😀 the cat".encode(),
    b"\xff\xfe the cat",
    b"the\xe2\x82cat",
    b"\t\n ",
    "cat\u200bdog \u00adhat\x00mat".encode(),
    b"THE Cat,SAT.on",
    "ca\u0301t the\u0301 dog e\u0301 \u0301 cat".encode(),
    b"\xed\xa0\x80 cat",
    b"[MASK] [SEP] cats [CLS]",
    b"a" * 250 + b" cat",
]
MASKED_TEXTS = [
    b"the [MASK] sat",
    "Ün [MASK] [MASK] 東 .".encode(),
    b"\xff [MASK] cat",
    b"dog " * 30 + b"[MASK]",
    b"no mask",
    b"",
    b"cat [MASK][MASK]s [[MASK]] [mask]",
    b"[MASK] \xe2\x82 [SEP] [MASK]" + b"[MASK]" * 20,
]


def make_inputs(kind: str) -> dict[str, np.ndarray]:
    """Return the inputs of the signature `serving_default` of a kind of model."""
    texts = _to_array(MASKED_TEXTS if kind == "masked_lm" else TEXTS)
    if kind in ("pair_classifier", "reranker"):
        return {"text": texts, "second_text": np.roll(texts, 3)}
    if kind == "null_answerer":
        return {"question": np.roll(texts, 1), "context": texts}
    return {"text": texts}


def build_rest_request(signature: str, inputs: dict[str, np.ndarray]) -> dict:
    """Return the body of a REST request in column format; bytes that are not UTF-8 become `{"b64": ...}`."""
    return {"signature_name": signature, "inputs": {name: _to_json(values.tolist()) for name, values in inputs.items()}}


def _to_json(value: object) -> object:
    if isinstance(value, list):
        return [_to_json(one) for one in value]
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def make_ids() -> dict[str, np.ndarray]:
    """Return the inputs of the signature `ids`: three sequences with padding."""
    rng = np.random.default_rng(3)
    mask = np.arange(7) < np.array([[7], [4], [1]])
    ids, segments = rng.integers(5, 20, mask.shape), np.arange(7) >= np.array([[3], [2], [7]])
    inputs = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments * mask}
    return {name: values.astype(np.int32) for name, values in inputs.items()}


def assert_same_outputs(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare names, types, shapes and values; numbers within 1e-5 (measured: 3e-6)."""
    assert sorted(got) == sorted(expected)
    for name, values in expected.items():
        assert (got[name].dtype, got[name].shape) == (values.dtype, values.shape), name
        if values.dtype.kind == "f":
            np.testing.assert_allclose(got[name], values, atol=1e-5, rtol=0, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], values, err_msg=name)


def _to_array(values: list[bytes]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array
