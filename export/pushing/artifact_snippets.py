"""The section of a model card about the artifacts of a repository: files, and code that runs them."""

from collections.abc import Sequence

from bert_keras.checkpoints.huggingface.card_text import CardFacts
from bert_keras.heads.known_heads import get_head

_TEXT = "The weather was a pleasant surprise."
_QUESTION, _CONTEXT = "Where was she born?", "Ada Lovelace was born in London."
_HEADING = """\
## Artifacts

Each file was compared with the checkpoint in its own runtime; `parity.json` has the differences.

| file | runs in |
|---|---|
"""
_ONNX = """\
ONNX in onnxruntime, without TensorFlow (`pip install 'bert-keras[onnx,hub]'`):

```python
import bert_keras as bk
from huggingface_hub import snapshot_download

folder = snapshot_download("this folder", allow_patterns=["*.json", "*.txt", "{file}"])
predictor = bk.Predictor.from_artifact(folder + "/{file}")
print(predictor([{example}])[0])
```
"""
_JAVASCRIPT = """\
ONNX in a browser or in Node, with transformers.js:

```js
import {{ pipeline }} from "@huggingface/transformers";

const answer = await pipeline("{task}", "this folder", {{ dtype: "{dtype}" }});
console.log(await answer({example}{options}));
```
"""
_TFLITE = """\
TFLite in LiteRT (`pip install ai-edge-litert huggingface_hub`). `tflite/README.md` has the inputs, the tokenizer and
what apps for Android, iOS and browsers need; this lists the inputs and outputs:

```python
from ai_edge_litert.interpreter import Interpreter
from huggingface_hub import hf_hub_download

interpreter = Interpreter(hf_hub_download("this folder", "{file}"))
print(interpreter.get_signature_list())
```
"""
_SERVING = """\
SavedModel in TensorFlow Serving, from text to answers:

```bash
hf download {repository} --include "saved_model/*" --local-dir model
docker run --rm -p 8501:8501 -v "$PWD/model/saved_model:/models/model" tensorflow/serving
curl -d '{{"inputs": {{{inputs}}}}}' localhost:8501/v1/models/model:predict
```
"""


def write_artifact_snippets(facts: CardFacts, artifacts: Sequence[str], repository: str) -> str:
    """Return the section about artifacts.

    Args:
        facts: the model.
        artifacts: the paths of the artifacts in the repository.
        repository: "ORG/NAME", for commands.
    """
    parts = [_HEADING + "".join(f"| `{name}` | {_describe_runtime(name)} |\n" for name in artifacts)]
    onnx = [name for name in artifacts if name.startswith("onnx/")]
    tflite = [name for name in artifacts if name.startswith("tflite/")]
    has_task = facts.kind not in ("BertEncoder", "ElectraPretrainer", "BertPretrainer")
    if onnx and has_task:
        file = next((name for name in onnx if "quantized" in name), onnx[0])
        parts.append(_ONNX.format(file=file, example=_write_example(facts)))
        if _has_javascript_pipeline(facts):
            parts.append(_write_javascript(facts, is_quantized="quantized" in file))
    if tflite:
        parts.append(_TFLITE.format(file=tflite[0]))
    if any(name.startswith("saved_model/") for name in artifacts):
        parts.append(_SERVING.format(repository=repository, inputs=_write_inputs(facts)))
    return "\n".join(parts)


def _describe_runtime(name: str) -> str:
    folder = name.split("/")[0]
    runtimes = {"onnx": "onnxruntime, OpenVINO, transformers.js, optimum", "tflite": "LiteRT on phones and in browsers"}
    return runtimes.get(folder, "TensorFlow Serving")


def _has_javascript_pipeline(facts: CardFacts) -> bool:
    """Whether transformers.js has a pipeline with the answers of the model."""
    if facts.kind == "BertEmbedder":
        return facts.pooling in ("mean", "cls")
    return facts.kind != "BertQuestionAnswerer" and not facts.has_pairs and facts.problem != "regression"


def _write_example(facts: CardFacts) -> str:
    """Return the argument of a predictor, in Python."""
    if facts.kind == "BertQuestionAnswerer":
        return f'("{_QUESTION}", "{_CONTEXT}")'
    if facts.kind == "BertMaskedLM":
        return '"Paris is the [MASK] of France."'
    return f'("{_TEXT}", "It was raining.")' if facts.has_pairs else f'"{_TEXT}"'


def _write_javascript(facts: CardFacts, *, is_quantized: bool) -> str:
    is_embedder = facts.kind == "BertEmbedder"
    return _JAVASCRIPT.format(
        task="feature-extraction" if is_embedder else get_head(facts.kind).pipeline_tag,
        dtype="q8" if is_quantized else "fp32",
        example=_write_example(facts),
        options=f', {{ pooling: "{facts.pooling}", normalize: {str(facts.normalize).lower()} }}' if is_embedder else "",
    )


def _write_inputs(facts: CardFacts) -> str:
    """Return the inputs of the SavedModel's signature for text, in JSON."""
    if facts.kind == "BertQuestionAnswerer":
        return f'"question": ["{_QUESTION}"], "context": ["{_CONTEXT}"]'
    first = "Paris is the [MASK] of France." if facts.kind == "BertMaskedLM" else _TEXT
    second = ', "second_text": ["It was raining."]' if facts.has_pairs else ""
    return f'"text": ["{first}"]{second}'
