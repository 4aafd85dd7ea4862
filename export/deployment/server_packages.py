"""The packages that `bert-keras serve` and Triton's Python need to run an ONNX file, without TensorFlow and Keras.

The versions are those of setup.cfg; a test compares both lists with what the modules import.
"""

_ONNXRUNTIME = "onnxruntime>=1.20,!=1.21.*,!=1.22.*,!=1.23.*,!=1.24.*,<2"  # the others compute wrongly with AMX
_MODEL_PACKAGES = (_ONNXRUNTIME, "safetensors>=0.5,<1", "tokenizers>=0.22,<0.24")

SERVER_PACKAGES = (
    "grpcio>=1.71,<2",
    "httptools>=0.6,<1",
    "numpy>=2.0,<3",
    "orjson>=3.10,<4",
    "prometheus-client>=0.21,<1",
    "protobuf>=6.31,<8",
    "pydantic>=2.10,<3",
    "rich>=13",
    "starlette>=0.45,<2",
    "uvicorn>=0.34,<1",
    "uvloop>=0.21,<1",
    *_MODEL_PACKAGES,
)
# NumPy 2 ends the Python process of Triton 24.10 at the first request; answers with 1.26.4 and 2.4.6 are equal.
TRITON_PACKAGES = ("numpy>=1.26,<2", *_MODEL_PACKAGES)
