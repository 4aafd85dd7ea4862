"""Templates of the Dockerfiles in `deploy/docker/`, for `string.Template`."""

SERVER_DOCKERFILE = """\
# A server that contains the model: `bert-keras serve` with onnxruntime, without TensorFlow. Run in the folder that
# contains onnx/ and deploy/:
#
#     docker build -f deploy/docker/Dockerfile -t $image .
#     docker run --rm -p 8500:8500 -p 8501:8501 $image
#
# The server alone, for KServe, which brings the model:
#
#     docker build -f deploy/docker/Dockerfile --target server -t $server_image .
FROM python:3.11-slim AS server

# The version that exported the model. If no package index has it, first put its wheel into deploy/docker/:
#     pip wheel --no-deps --wheel-dir deploy/docker SOURCES_OF_BERT_KERAS
ARG BERT_KERAS_VERSION=$version
COPY deploy/docker /tmp/wheels

# --no-deps leaves out TensorFlow and Keras, which an ONNX file does not need.
RUN pip install --no-cache-dir \\
$server_packages
    && pip install --no-cache-dir --no-deps --find-links /tmp/wheels "bert-keras==$${BERT_KERAS_VERSION}"

# The server runs one batch per core of the container. Without this, NumPy would start as many threads again.
ENV OMP_NUM_THREADS=1
# onnxruntime 1.29 and later send usage data to Microsoft and write to the home folder, unless this is set.
ENV ORT_DISABLE_TELEMETRY=1

USER 1000:1000
EXPOSE 8500 8501
HEALTHCHECK --start-period=2m --interval=10s --timeout=5s \\
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/health/ready', timeout=4)"]

FROM server
COPY onnx /models/$name

# Add "--quantized" to run onnx/model_quantized.onnx, which has 8-bit weights.
CMD ["bert-keras", "serve", "--host", "0.0.0.0", "--model", "$name=/models/$name"]
"""

TRITON_DOCKERFILE = """\
# Triton with the models in deploy/triton/. Run in the folder that contains onnx/ and deploy/:
#
#     docker build -f deploy/docker/triton.Dockerfile -t $triton_image .
#     docker run --rm --shm-size=256m -p 8000:8000 -p 8001:8001 -p 8002:8002 $triton_image
ARG TRITON_VERSION=24.10
FROM nvcr.io/nvidia/tritonserver:$${TRITON_VERSION}-py3
$layers
CMD ["tritonserver", "--model-repository=/models"]
"""

TRITON_LAYERS_WITH_TEXTS = """
# The version that exported the model. If no package index has it, first put its wheel into deploy/docker/:
#     pip wheel --no-deps --wheel-dir deploy/docker SOURCES_OF_BERT_KERAS
ARG BERT_KERAS_VERSION=$version
COPY deploy/docker /tmp/wheels

# Images from 24.12 on refuse to install into the system's Python, which Triton uses, unless this is set.
ENV PIP_BREAK_SYSTEM_PACKAGES=1
# Keep NumPy 1: with NumPy 2.0 to 2.4 the server of 24.10 ends its Python process at the first request.
# --no-deps leaves out TensorFlow and Keras, which an ONNX file does not need.
RUN pip install --no-cache-dir \\
$triton_packages
    && pip install --no-cache-dir --no-deps --find-links /tmp/wheels "bert-keras==$${BERT_KERAS_VERSION}"

# The image contains the ONNX folder once: the model for ids finds its files through a link.
COPY deploy/triton /models
COPY onnx /models/$name/onnx
RUN ln -s /models/$name/onnx/onnx /models/${name}_ids/1
"""

TRITON_LAYERS = """
COPY deploy/triton /models
COPY onnx/onnx /models/${name}_ids/1
"""

PACKAGE_LINE = """\
        "$package" \\"""
