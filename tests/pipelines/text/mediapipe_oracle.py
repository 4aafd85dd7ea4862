"""MediaPipe's BERT preprocessor, the reference for the tokenizer's MediaPipe mode.

MediaPipe (1.2.2, Apache 2.0) hides its tokenizer in `TextClassifier` and `TextEmbedder`. A TFLite model of three casts
returns the three inputs from the preprocessor, which are those of a model on a phone. Importing this module does not
need mediapipe; calling it does.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np

_INPUTS = ("ids", "mask", "segment_ids")  # MediaPipe's names of the inputs of a BERT model
_EXACT_IN_FLOAT32 = 1 << 24


def mediapipe_ids(
    vocabulary: Sequence[str], texts: Sequence[str | bytes], max_sequence_length: int = 128
) -> list[list[int]]:
    """Return MediaPipe's ids of each text, [CLS] tokens [SEP], without padding.

    MediaPipe's C interface ends each text at its first NUL. A text of 128 tokens takes 0.4 ms on two cores, a character
    of a long text 1 microsecond, and the first call 6 s more, because `import mediapipe` loads TensorFlow, JAX and
    OpenCV. So a test of all code points is fastest with a few long texts.

    Args:
        vocabulary: the tokens in the order of their ids.
        texts: strings, or bytes that are not UTF-8.
        max_sequence_length: S, the maximum number of tokens, including [CLS] and [SEP]; MediaPipe needs at least 2.

    Raises:
        ValueError: the vocabulary has a token that MediaPipe reads differently.
    """
    return [ids[: int(mask.sum())].tolist() for ids, mask, _ in _model_inputs(vocabulary, texts, max_sequence_length)]


def mediapipe_inputs(
    vocabulary: Sequence[str], texts: Sequence[str | bytes], max_sequence_length: int = 128
) -> dict[str, np.ndarray]:
    """Return the three padded inputs of the model, `(B, S)` int32, keyed by MediaPipe's names."""
    rows = np.array(list(_model_inputs(vocabulary, texts, max_sequence_length)), np.int32)
    return {name: rows[:, index] for index, name in enumerate(_INPUTS)}


def _model_inputs(vocabulary, texts, length) -> Iterator[np.ndarray]:
    """Yield `(3, S)` int32 for each text: ids, mask, segment ids."""
    from mediapipe.tasks.python import BaseOptions
    from mediapipe.tasks.python.text import TextEmbedder, TextEmbedderOptions

    base = BaseOptions(model_asset_buffer=_echo_model(vocabulary, length))
    options = TextEmbedderOptions(base_options=base, l2_normalize=False, quantize=False)
    with TextEmbedder.create_from_options(options) as embedder:
        for text in texts:
            heads = embedder.embed(_Raw(text) if isinstance(text, bytes) else text).embeddings
            yield np.array([head.embedding for head in heads]).astype(np.int32)


class _Raw(bytes):
    """Bytes in place of a string: `embed` only calls `encode`."""

    def encode(self, encoding: str) -> bytes:
        return bytes(self)


def _echo_model(vocabulary: Sequence[str], length: int) -> bytes:
    """Return a TFLite file whose outputs are its inputs, with the metadata and the vocabulary that MediaPipe needs."""
    import flatbuffers

    model = flatbuffers.Builder()
    model.Finish(_graph(length).Pack(model), b"TFL3")
    associated = io.BytesIO(bytes(model.Output()))
    with zipfile.ZipFile(associated, "a", zipfile.ZIP_STORED) as archive:  # a ZIP file is read from its end
        archive.writestr("vocab.txt", "".join(f"{token}\n" for token in _checked(vocabulary)))
    return associated.getvalue()


def _graph(length: int):
    from mediapipe.tasks.metadata import schema_py_generated as tfl

    def tensor(name: str, dtype: int):
        return tfl.TensorT(name=name, shape=[1, length], type=dtype, buffer=0)

    cast = tfl.OperatorCodeT(deprecatedBuiltinCode=tfl.BuiltinOperator.CAST, builtinCode=tfl.BuiltinOperator.CAST)
    graph = tfl.SubGraphT(
        tensors=[tensor(name, tfl.TensorType.INT32) for name in _INPUTS]
        + [tensor(f"{name}_echo", tfl.TensorType.FLOAT32) for name in _INPUTS],
        inputs=[0, 1, 2],
        outputs=[3, 4, 5],
        operators=[tfl.OperatorT(opcodeIndex=0, inputs=[index], outputs=[index + 3]) for index in range(3)],
    )
    return tfl.ModelT(
        version=3,
        operatorCodes=[cast],
        subgraphs=[graph],
        buffers=[tfl.BufferT(), tfl.BufferT(data=np.frombuffer(_metadata(), np.uint8))],
        metadata=[tfl.MetadataT(name="TFLITE_METADATA", buffer=1)],
    )


def _metadata() -> bytes:
    import flatbuffers
    from mediapipe.tasks.metadata import metadata_schema_py_generated as meta

    vocabulary = meta.AssociatedFileT(name="vocab.txt", type=meta.AssociatedFileType.VOCABULARY)
    tokenizer = meta.ProcessUnitT(
        optionsType=meta.ProcessUnitOptions.BertTokenizerOptions,
        options=meta.BertTokenizerOptionsT(vocabFile=[vocabulary]),
    )
    graph = meta.SubGraphMetadataT(
        inputTensorMetadata=[meta.TensorMetadataT(name=name) for name in _INPUTS],
        outputTensorMetadata=[meta.TensorMetadataT(name=name) for name in _INPUTS],
        inputProcessUnits=[tokenizer],
    )
    builder = flatbuffers.Builder()
    metadata = meta.ModelMetadataT(name="echo", subgraphMetadata=[graph], minParserVersion="1.3.0")
    builder.Finish(metadata.Pack(builder), b"M001")
    return bytes(builder.Output())


def _checked(vocabulary: Sequence[str]) -> Sequence[str]:
    """Check that MediaPipe reads every token: it drops empty lines and a "\\r" at the end of a line."""
    if len(vocabulary) > _EXACT_IN_FLOAT32:
        raise ValueError(f"{len(vocabulary)} tokens; expected at most 2**24, since ids are read back through float32")
    for index, token in enumerate(vocabulary):
        if not token or "\n" in token or token.endswith("\r"):
            raise ValueError(f"token {index} is {token!r}, which MediaPipe would read as another token or as none")
    return vocabulary
