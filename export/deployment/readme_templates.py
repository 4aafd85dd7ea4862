"""Templates of `deploy/README.md`, for `string.Template`."""

README = """\
# Deploying $name

All commands run in the folder that contains `onnx/` and `deploy/`. Copy the files before you edit them: the next export
with `--overwrite` replaces this folder.

| file | contents |
|---|---|
$rows

$sections"""

SERVER_ROWS = """\
| `docker/Dockerfile` | `bert-keras serve` with the model, without TensorFlow; target `server`: without the model |
| `kubernetes.yaml` | Deployment with probes and limits, Service, autoscaling by CPU, disruption budget |
| `kserve.yaml` | a runtime that serves what bert-keras exported, and an InferenceService for this model |
| `docker/triton.Dockerfile` | Triton with the models in `triton/` |
| `triton/$name/` | model for texts: `config.pbtxt`, and `1/model.py`, which answers as `bert-keras serve` does |
| `triton/${name}_ids/` | model for token ids: the `config.pbtxt` of the ONNX file |
| `request.json`, `request_ids.json` | requests with texts and with token ids, in the Open Inference Protocol |"""

IDS_ROWS = """\
| `docker/triton.Dockerfile` | Triton with the model in `triton/` |
| `triton/${name}_ids/` | model for token ids: the `config.pbtxt` of the ONNX file |
| `request_ids.json` | a request with token ids, in the Open Inference Protocol |"""

SERVER_SECTIONS = """\
## Docker

```
docker build -f deploy/docker/Dockerfile -t $image .
docker run --rm -p 8500:8500 -p 8501:8501 $image
curl -d @deploy/request.json localhost:8501/v2/models/$name/infer
```

`http://localhost:8501/docs` lists everything that clients can call: besides this protocol those of TensorFlow Serving,
OpenAI and Text Embeddings Inference; gRPC is on port 8500. Useful additions to `docker run`:

- `-e BERT_KERAS_API_KEY=...` before the image's name: clients must send `Authorization: Bearer ...`.
- `--read-only --tmpfs /tmp` before the image's name: the server writes no other files.
- `--cpus=N` limits the cores; the server then computes N batches at the same time.

If no package index has bert-keras $version, first put its wheel next to the Dockerfile:
`pip wheel --no-deps --wheel-dir deploy/docker SOURCES_OF_BERT_KERAS`.

## Kubernetes

Replace `REGISTRY` here, and `image:` in `kubernetes.yaml` by the same name:

```
docker build -f deploy/docker/Dockerfile -t REGISTRY/$image .
docker push REGISTRY/$image
kubectl apply -f deploy/kubernetes.yaml
kubectl port-forward service/$dns_name 8501  # in another terminal
curl -d @deploy/request.json localhost:8501/v2/models/$name/infer
```

Two to ten pods, with 2 cores and $memory of memory each. A new image replaces the pods one by one; a pod that ends
finishes its requests first.

## KServe

Replace `REGISTRY` here, and `image:` in `kserve.yaml` by the same name; upload the content of `onnx/` and write its
place into `storageUri`. In URLs the model has the name of the InferenceService:

```
docker build -f deploy/docker/Dockerfile --target server -t REGISTRY/$server_image .
docker push REGISTRY/$server_image
kubectl apply -f deploy/kserve.yaml
kubectl port-forward service/$dns_name-predictor 8080:80  # in another terminal
curl -d @deploy/request.json localhost:8080/v2/models/$dns_name/infer
```

(The port-forward is for KServe's standard deployment mode. With Knative, send the request to the URL that
`kubectl get inferenceservice $dns_name` prints.)

"""

TRITON_SECTION = """\
## Triton

```
docker build -f deploy/docker/triton.Dockerfile -t $triton_image .
docker run --rm --shm-size=256m -p 8000:8000 -p 8001:8001 -p 8002:8002 $triton_image
$curls
```

$text_notes\
`${name}_ids` takes `input_ids`, `attention_mask` and `token_type_ids` and returns the outputs of the ONNX file. To use
a GPU, add `--gpus=1` to `docker run`. Keep `model.onnx` where Triton contains onnxruntime 1.21 to 1.24 and the
processor has AMX: these releases compute wrong products of 8-bit weights.

`deploy/` contains no copy of the ONNX files. To use a model repository of your own instead of the Dockerfile:

```
cp -r deploy/triton/* REPOSITORY
$copies
```
"""

TEXT_CURL = "curl -d @deploy/request.json localhost:8000/v2/models/$name/infer"
IDS_CURL = "curl -d @deploy/request_ids.json localhost:8000/v2/models/${name}_ids/infer"
TEXT_COPY = "cp -r onnx REPOSITORY/$name/onnx"
IDS_COPY = "cp -r onnx/onnx REPOSITORY/${name}_ids/1"

TEXT_NOTES = """\
`$name` takes texts and runs on the CPU. Its answers are those of `bert-keras serve`, but every output has one row per
text: `[B, 1]` where the other servers have `[B]`. It was run in Triton 2.51.0, the server of 24.10, with Python 3.11,
NumPy 1.26.4 and onnxruntime 1.32. NumPy 2.0, 2.1, 2.2, 2.3 and 2.4 end that server's Python process at the first
request ("Stub process is not healthy"), so the Dockerfile installs NumPy 1. The image of 24.10 has Python 3.10, which
gets onnxruntime 1.20. Other releases, `docker build --build-arg TRITON_VERSION=...`, were not run.

"""
