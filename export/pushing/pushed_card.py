"""Complete the model card of a folder for a repository: metadata, scores, names in its code, and artifacts."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.card_metadata import (
    MeasuredScores,
    build_metadata,
    build_score_metadata,
    format_metadata,
    is_default_widget,
)
from bert_keras.checkpoints.huggingface.card_snippets import replace_folder
from bert_keras.checkpoints.huggingface.card_text import CardFacts, format_card
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head
from bert_keras.hub.names import PREFIX

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?"  # "squad" has no owner
_FORMS = {  # option: what its value looks like, and examples
    "license": (r"[a-z0-9][a-z0-9.+-]*", "an identifier of the Hub, such as apache-2.0, mit or cc-by-4.0"),
    "base_model": (_REPOSITORY, "the name of a model on the Hub, such as google-bert/bert-base-uncased"),
    "dataset": (_REPOSITORY, "the name of a data set on the Hub, such as stanfordnlp/imdb"),
    "language": (r"[a-z]{2,3}|multilingual|code", "a code of ISO 639, such as en or deu, or multilingual"),
}

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


@dataclasses.dataclass(frozen=True)
class CardOptions:
    """What only the user knows about a model, for its card.

    Attributes:
        license: identifier of its license.
        base_model: the model on the Hub that it was made from.
        datasets: the data sets on the Hub that it was trained on.
        languages: codes of its languages.

    Raises:
        InputError: a value has a form that the Hub does not accept.
    """

    license: str | None = None
    base_model: str | None = None
    datasets: Sequence[str] = ()
    languages: Sequence[str] = ()

    def __post_init__(self):
        object.__setattr__(self, "base_model", self.base_model and self.base_model.removeprefix(PREFIX))
        given = [("license", self.license), ("base_model", self.base_model)]
        given += [("dataset", name) for name in self.datasets] + [("language", code) for code in self.languages]
        for name, value in given:
            form, expected = _FORMS[name]
            if value is not None and not re.fullmatch(form, value):
                raise InputError(f"{name} is {quote(value)}; expected {expected}: correct it, or leave it out")

    def to_metadata(self) -> dict:
        """Return the keys of the metadata that were given."""
        metadata = {"license": self.license, "base_model": self.base_model, "datasets": list(self.datasets)}
        metadata["language"] = self.languages[0] if len(self.languages) == 1 else list(self.languages)
        return {name: value for name, value in metadata.items() if value}


def complete_card(
    card: str | None,
    repository: str,
    checkpoint: Checkpoint,
    options: CardOptions,
    *,
    metrics: Mapping[str, object] | None = None,
    artifacts: Sequence[str] = (),
) -> str:
    """Return the card of a repository.

    What the user wrote into the card is kept, except keys of the metadata that `options` sets.

    Args:
        card: the card of the folder; None: it has none.
        repository: "ORG/NAME".
        checkpoint: the checkpoint.
        options: what the user says about the model.
        metrics: content of the folder's `metrics.json`.
        artifacts: the artifacts that are pushed, as paths in the repository.

    Raises:
        InputError: the metadata of the card is invalid.
    """
    facts = CardFacts.of_checkpoint(checkpoint)
    metadata, body = split_card(format_card(facts) if card is None else card)
    if "bert-keras" in (metadata.get("tags") or ()) and metadata.get("library_name") == "keras":
        del metadata["library_name"]  # of release 0.1; transformers opens the folder, Keras alone does not
    defaults = build_metadata(facts.kind, facts.family)
    del defaults["widget"]  # a card without one may have lost it on purpose
    metadata = {**defaults, **metadata, **options.to_metadata()}
    metadata |= _complete_scores(metadata, facts, options, metrics, repository.split("/")[1])
    tags = metadata.get("tags")
    tags = [tags] if isinstance(tags, str) else list(tags or ())
    metadata["tags"] = list(dict.fromkeys([*tags, *_list_artifact_tags(artifacts)]))
    if is_default_widget(metadata.get("widget")) and options.languages and "en" not in options.languages:
        del metadata["widget"]  # its texts are English
    if artifacts:
        body = body.rstrip() + "\n\n" + write_artifact_snippets(facts, artifacts, repository)
    return format_metadata(metadata) + "\n" + replace_folder(body, repository)


def split_card(card: str) -> tuple[dict, str]:
    """Return the metadata and the text of a card.

    Raises:
        InputError: the metadata is not a YAML mapping.
    """
    import yaml  # installed with huggingface_hub

    match = _FRONT_MATTER.match(card)
    if match is None:
        return {}, "\n" + card.lstrip()
    try:
        metadata = yaml.safe_load(match[1]) or {}
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"README.md has metadata that is not YAML ({reason}): correct it") from None
    if not isinstance(metadata, dict) or not all(isinstance(name, str) for name in metadata):
        raise InputError("README.md has metadata that is not a YAML mapping with strings as keys: correct it")
    return metadata, "\n" + card[match.end() :].lstrip("\r\n")


def _complete_scores(
    metadata: Mapping[str, object],
    facts: CardFacts,
    options: CardOptions,
    metrics: Mapping[str, object] | None,
    name: str,
) -> dict:
    """Return `metrics` and `model-index` with the name of the repository, from the card or from `metrics.json`."""
    index = metadata.get("model-index")
    if isinstance(index, list) and len(index) == 1 and isinstance(index[0], dict):
        results = [_name_dataset(result, options) for result in index[0].get("results") or ()]
        return {"model-index": [{**index[0], "name": name, "results": results}]}
    if index is not None or not metrics:
        return {}
    held_out = metrics.get("held_out")
    number = held_out.get("examples") if isinstance(held_out, dict) else None
    dataset = f"{number:,} held-out examples" if isinstance(number, int) else "held-out examples"
    measured = MeasuredScores({key: value for key, value in metrics.items() if key not in ("epoch", "epochs")}, dataset)
    return build_score_metadata(
        facts.kind, measured, name=name, dataset=options.datasets[0] if options.datasets else ""
    )


def _name_dataset(result: object, options: CardOptions) -> object:
    """Return a result of the model index with the data set that the user named instead of our placeholder."""
    if not options.datasets or not isinstance(result, dict) or not isinstance(result.get("dataset"), dict):
        return result
    if result["dataset"].get("type") != "held-out":
        return result
    return {**result, "dataset": {**result["dataset"], "type": options.datasets[0]}}


def _list_artifact_tags(artifacts: Sequence[str]) -> list[str]:
    """Return the tags by which people find models with artifacts."""
    onnx = ["onnx", "transformers.js"] if any(name.startswith("onnx/") for name in artifacts) else []
    return onnx + (["tflite"] if any(name.startswith("tflite/") for name in artifacts) else [])


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
