"""How large the files will be that a model is saved to and exported to."""

import math

import keras

_FLOAT32, _FLOAT16, _INT8 = 4, 2, 1


def artifact_bytes(model: keras.Model) -> dict[str, int]:
    """Returns the bytes of the weights in each kind of file; graph, vocabulary and metadata come on top.

    In int8 files the matrices and tables are whole numbers with a scale for each of their output channels, and vectors
    stay float32. A masked LM in TFLite has its tied table twice, which is not counted.
    """
    shapes = [weight.shape for weight in model.weights]
    numbers = sum(map(math.prod, shapes))
    in_int8 = sum(_int8_bytes(shape) for shape in shapes)
    return {
        "checkpoint (safetensors)": _FLOAT32 * numbers,
        "SavedModel": _FLOAT32 * numbers,
        "TFLite float32": _FLOAT32 * numbers,
        "TFLite float16": _FLOAT16 * numbers,
        "TFLite dynamic_int8": in_int8,
        "ONNX": _FLOAT32 * numbers,
        "ONNX int8": in_int8,
    }


def _int8_bytes(shape: tuple[int, ...]) -> int:
    if len(shape) < 2:
        return _FLOAT32 * math.prod(shape)
    return _INT8 * math.prod(shape) + _FLOAT32 * shape[-1]
