"""The texts of the files beside a SavedModel; `$name` and its like are filled in."""

MODELS_CONFIG = """\
# What the server serves: the newest version in the folder, and a newer one as soon as it appears there.
model_config_list {
  config {
    name: "$name"
    base_path: "/models/$name"
    model_platform: "tensorflow"
    model_version_policy { latest { num_versions: 1 } }
  }
}
"""

BATCHING_CONFIG = """\
# With this, requests that come at the same time are answered as one batch. Off unless the server is started with
# --enable_batching=true (README.md); it pays where many clients send one text each.
#
# Strings batch well: each text is one value, and the lengths are evened out in the graph.
# The signature `ids` does not: one batch of ids of different lengths fails for all who are in it. With batching, pad
# ids to one length in all clients. Do not set pad_variable_length_inputs: the server would repeat the first value of
# a request, 1 in attention_mask, and padding would count as text.

max_batch_size { value: $max_batch_size }  # rows, the most that one request may have; a full batch is answered,
batch_timeout_micros { value: 2000 }  # and one whose first request has waited 2 ms
max_enqueued_batches { value: 100 }  # what more comes is refused at once
pad_variable_length_inputs: false

# num_batch_threads is left to the server: a batch for each core at once.
# allowed_batch_sizes is left out: this graph takes any size, and smaller batches would be filled up with copies.
"""

DOCKERFILE = """\
# A server with the model inside. In the folder that holds saved_model/ and serving/:
#
#     docker build -f serving/Dockerfile -t bert-server .
#     docker run --rm -p 8500:8500 -p 8501:8501 bert-server
#
# Any release from $min_serving on runs the model:  docker build --build-arg TF_SERVING_VERSION=...
ARG TF_SERVING_VERSION=$image_tag
FROM tensorflow/serving:$${TF_SERVING_VERSION}

# Warm-up requests lie within, in saved_model/*/assets.extra: the server says that it is ready after it has run them.
COPY saved_model /models/$name
COPY serving/models.config serving/batching.config /models/

# The image's entry point opens 8500 for gRPC and 8501 for REST, and adds these flags; what `docker run` is given behind
# the image's name replaces them all.
# Threads: intra is how many compute one matrix product, inter how many operations run at once; 0 is one for each core.
# The server does not see a limit of `docker run --cpus=N`: write N here then. With many clients at once, try intra 1.
CMD ["--model_config_file=/models/models.config", \\
     "--tensorflow_intra_op_parallelism=0", \\
     "--tensorflow_inter_op_parallelism=0"]
"""

README = """\
# Serving $name

In the folder that holds `saved_model/` and `serving/`:

```
docker build -f serving/Dockerfile -t bert-server .
docker run --rm -p 8500:8500 -p 8501:8501 bert-server
curl -d @serving/request_$first.json localhost:8501/v1/models/$name:predict
```

| file | what it is |
|---|---|
| `Dockerfile` | TensorFlow Serving $image_tag with the model inside; any release from $min_serving on runs it |
| `models.config` | which model is served, under which name |
| `batching.config` | how requests become batches, if you ask for it; says when not to |
$request_rows

The answer to a REST request is `{"outputs": {name: values}}`, or `{"outputs": values}` where the signature has one
output. Strings are UTF-8; bytes that are not go as `{"b64": "..."}`.

To answer requests that come at the same time as one batch, after reading `batching.config`:

```
docker run --rm -p 8500:8500 -p 8501:8501 bert-server --model_config_file=/models/models.config \\
    --enable_batching=true --batching_parameters_file=/models/batching.config
```
"""

REQUEST_ROW = """\
| `request_$signature.json` | a REST request to the signature `$signature` |
| `request_$signature.py` | the same over gRPC; needs `pip install tensorflow-serving-api` |"""

GRPC_CLIENT = '''\
"""Asks $name for the signature `$signature` over gRPC, and prints the answers.

    pip install tensorflow-serving-api
    python request_$signature.py [HOST:PORT]
"""

import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

INPUTS = {  # name: (type, values)
$inputs
}


def main(address="localhost:8500"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "$name"
    request.model_spec.signature_name = "$signature"
    for name, (dtype, values) in INPUTS.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values, dtype=dtype))
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(request, timeout=30)  # seconds
    for name, tensor in sorted(answer.outputs.items()):
        print(name, tf.make_ndarray(tensor).tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
'''
