"""Templates of the files for TensorFlow Serving, for `string.Template`."""

MODELS_CONFIG = """\
# The server serves the newest version in the folder, and a newer one as soon as it appears.
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
# Answers requests that arrive at the same time as one batch. Off unless the server is started with
# --enable_batching=true (README.md). Useful if many clients send one text each.
#
# Strings batch well: each text is one value, and the graph pads texts of different lengths.
# The signature `ids` does not: a batch of ids of different lengths fails for all of its requests. With batching, pad
# ids to the same length in all clients. Do not set pad_variable_length_inputs: the server would pad with the first
# value of a request, which is 1 in attention_mask, so padding would count as text.

max_batch_size { value: $max_batch_size }  # texts or sequences, also the maximum per request; a full batch runs at once
batch_timeout_micros { value: 2000 }  # any other batch runs after its first request has waited 2 ms
max_enqueued_batches { value: 100 }  # further requests are refused at once
pad_variable_length_inputs: false

# num_batch_threads is not set: by default the server runs one batch per core.
# allowed_batch_sizes is not set: this graph accepts any size, and smaller batches would be filled with copies.
"""

MONITORING_CONFIG = """\
# Metrics for Prometheus on the REST port, 8501: number of requests, their latencies, and those of the graph.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""

DOCKERFILE = """\
# A server that contains the model. Run in the folder that contains saved_model/ and serving/:
#
#     docker build -f serving/Dockerfile -t bert-server .
#     docker run --rm -p 8500:8500 -p 8501:8501 bert-server
#
# Any release from $min_serving on can run the model:  docker build --build-arg TF_SERVING_VERSION=...
ARG TF_SERVING_VERSION=$image_tag
FROM tensorflow/serving:$${TF_SERVING_VERSION}

# The server reports that it is ready after it has run the warm-up requests in saved_model/*/assets.extra.
COPY saved_model /models/$name
COPY serving/models.config serving/batching.config serving/monitoring.config /models/

# Use oneDNN on every processor; by default TensorFlow uses it only on those with AVX-512 VNNI. Without VNNI a batch
# takes 0.7 to 0.9 of the time.
ENV TF_ENABLE_ONEDNN_OPTS=1

# Let TensorFlow keep its own copies of the weights instead of making them in every request: one text of 8 to 80 tokens
# takes 0.75 to 0.9 of the time. They take memory; remove the line to save it.
ENV TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1

# The image's entry point listens on 8500 (gRPC) and 8501 (REST) and adds these flags. Arguments after the image's name
# in `docker run` replace all of them.
# Threads: intra is the number per matrix product, inter the number of operations at once; 0 means one per core.
# The server ignores the limit of `docker run --cpus=N`, so write N here. With many clients at once, try intra 1.
# --mixed_precision=bfloat16 computes products in 16 bits (README.md); remove the # to use it.
CMD ["--model_config_file=/models/models.config", \\
     "--monitoring_config_file=/models/monitoring.config", \\
#    "--mixed_precision=bfloat16", \\
     "--tensorflow_intra_op_parallelism=0", \\
     "--tensorflow_inter_op_parallelism=0"]
"""

README = """\
# Serving $name

In the folder that contains `saved_model/` and `serving/`:

```
docker build -f serving/Dockerfile -t bert-server .
docker run --rm -p 8500:8500 -p 8501:8501 bert-server
curl -d @serving/request_$first.json localhost:8501/v1/models/$name:predict
```

| file | contents |
|---|---|
| `Dockerfile` | TensorFlow Serving $image_tag with the model; any release from $min_serving on can run it |
| `models.config` | the model to serve and its name |
| `batching.config` | optional: how requests are batched, and when not to |
| `monitoring.config` | metrics for Prometheus at `localhost:8501/monitoring/prometheus/metrics` |
$request_rows

The answer to a REST request is `{"outputs": {name: values}}`, or `{"outputs": values}` if the signature has only one
output. Strings are UTF-8; send other bytes as `{"b64": "..."}`.

On processors with AVX512_BF16 or AMX (`lscpu`), TensorFlow Serving 2.15.1 or later can compute the products in 16 bits:
remove the `#` before `--mixed_precision=bfloat16` in the Dockerfile. It pays for batches and long texts and is slower
for single short ones. BERT base took 0.6 of the time at 8 x 128 tokens, 0.9 at 1 x 128, and 1.3 at 1 x 16; a small
model gains less. All of 200 labels were equal (2 cores of AMD Zen 4). Compare the labels on your own texts first.

To answer requests that arrive at the same time as one batch, after reading `batching.config`:

```
docker run --rm -p 8500:8500 -p 8501:8501 bert-server --model_config_file=/models/models.config \\
    --monitoring_config_file=/models/monitoring.config \\
    --enable_batching=true --batching_parameters_file=/models/batching.config
```
"""

REQUEST_ROW = """\
| `request_$signature.json` | a REST request to the signature `$signature` |
| `request_$signature.py` | the same over gRPC; needs `pip install tensorflow-serving-api` |"""

GRPC_CLIENT = '''\
"""Send a request to the signature `$signature` of $name over gRPC, and print the answers.

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
