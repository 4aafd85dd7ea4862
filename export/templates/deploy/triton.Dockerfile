# Triton with the models in deploy/triton/. Run in the folder that contains onnx/ and deploy/:
#
#     docker build -f deploy/docker/triton.Dockerfile -t $triton_image .
#     docker run --rm --shm-size=256m -p 8000:8000 -p 8001:8001 -p 8002:8002 $triton_image
ARG TRITON_VERSION=24.10
FROM nvcr.io/nvidia/tritonserver:$${TRITON_VERSION}-py3
%if texts

# The version that exported the model. If no package index has it, first put its wheel into deploy/docker/:
#     pip wheel --no-deps --wheel-dir deploy/docker SOURCES_OF_BERT_KERAS
ARG BERT_KERAS_VERSION=$version
COPY deploy/docker /tmp/wheels

# Images from 24.12 on refuse to install into the system's Python, which Triton uses, unless this is set.
ENV PIP_BREAK_SYSTEM_PACKAGES=1
# Keep NumPy 1: with NumPy 2.0 to 2.4 the server of 24.10 ends its Python process at the first request.
# --no-deps leaves out TensorFlow and Keras, which an ONNX file does not need.
RUN pip install --no-cache-dir \
%each triton_packages
        "$package" \
%end
    && pip install --no-cache-dir --no-deps --find-links /tmp/wheels "bert-keras==$${BERT_KERAS_VERSION}"

# The image contains the ONNX folder once: the model for ids finds its files through a link.
COPY deploy/triton /models
COPY onnx /models/$name/onnx
RUN ln -s /models/$name/onnx/onnx /models/${name}_ids/1
%end
%if not texts

COPY deploy/triton /models
COPY onnx/onnx /models/${name}_ids/1
%end

CMD ["tritonserver", "--model-repository=/models"]
